"""The documentation is executed: Python blocks, shell commands and links of every page.

Python blocks and commands of one document run in order, in one namespace and one folder. Lines that
start with `$ ` in a console block are commands, as is every line of a bash or sh block. `make`,
`git clone` and `cd` are not run; the targets given to make must exist. A block after
`<!-- not run: the reason -->` is skipped, but the options of its `regard` commands must exist. Links to
files must resolve.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from regard.cli.main import verb_function

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

COMMANDS = {"console", "bash", "sh"}
# Other language tags would be skipped silently, so they are errors.
ALIASES = {"py": "python", "python3": "python", "pycon": "python", "shell": "console"}

FENCE = re.compile(r"^(?P<indent>[ ]*)```(?P<language>[\w+-]*)(?P<title>.*)$")
NOT_RUN = re.compile(r"<!--\s*not run\b:?\s*(?P<reason>.*?)\s*-->")
LINK = re.compile(r"\]\(\s*<?(?P<target>[^)\s>]+)[^)]*\)")
EXTERNAL = re.compile(r"^([a-z][a-z0-9+.-]*:|//|#)", re.IGNORECASE)
ASSIGNMENTS = re.compile(r"^(\w+=\S*\s+)*")


class Block(NamedTuple):
    """A fenced block to run."""

    language: str
    text: str
    line: int  # of its first line in the document, from 1


def blocks(document: str, *, skipped: bool = False) -> Iterator[Block]:
    """The blocks to run, in order; with `skipped`, also those marked "not run"."""
    lines = document.splitlines()
    position, before = 0, ""
    while position < len(lines):
        opening = FENCE.match(lines[position])
        if opening is None:
            before = lines[position].strip() or before
            position += 1
            continue
        start = position + 1
        end = next((n for n in range(start, len(lines)) if lines[n].strip() == "```"), None)
        assert end is not None, f"line {start}: unclosed block"
        language = opening["language"]
        tag = ALIASES.get(language)
        assert tag is None, f"line {start}: language '{language}'; write '{tag}'"
        skip = NOT_RUN.fullmatch(before)
        assert skip is None or skip["reason"], f"line {start}: 'not run' without a reason"
        if (skip is None or skipped) and language in COMMANDS | {"python"}:
            text = textwrap.dedent("\n".join(lines[start:end]))
            yield Block(language=language, text=text, line=start + 1)
        position, before = end + 1, ""


def commands(block: Block) -> list[str]:
    """The commands of a block, with continued lines joined."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        return [line.removeprefix("$ ").strip() for line in lines if line.startswith("$ ")]
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def make_targets(command: str) -> list[str] | None:
    """The targets of a `make` command; None for other commands."""
    words = ASSIGNMENTS.sub("", command).split()
    if not words or words[0] != "make":
        return None
    targets = []
    for word in words[1:]:
        if word in {"&&", "||", ";", "|", "#"}:
            break
        if not word.startswith("-") and "=" not in word:
            targets.append(word)
    return targets


def known_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", makefile, flags=re.MULTILINE))


def run_command(command: str, *, folder: Path, where: str) -> None:
    """Run a command, with the `regard` under test first in PATH."""
    targets = make_targets(command)
    if targets is not None:
        unknown = set(targets) - known_targets()
        assert not unknown, f"{where}: `{command}` names {unknown}, not in the Makefile"
        return
    if command.startswith(("git clone ", "cd ")):
        return
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{where}: `{command}` failed\n{done.stdout}{done.stderr}"


def dead_links(document: Path) -> list[str]:
    """The relative links of a document without a file; links in code are ignored."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", document.read_text(encoding="utf-8"))
    text = re.sub(r"`[^`\n]*`", "", text)
    targets = [link["target"] for link in LINK.finditer(text)]
    return [
        target
        for target in targets
        if not EXTERNAL.match(target) and not (document.parent / target.partition("#")[0]).exists()
    ]


def run_document(document: Path, *, folder: Path) -> None:
    """Run a document's blocks in order, in the current folder."""
    namespace: dict[str, object] = {"__name__": "document"}
    for block in blocks(document.read_text(encoding="utf-8")):
        if block.language == "python":
            # Blank lines, so that tracebacks have the line numbers of the document.
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, document, "exec", dont_inherit=True), namespace)
            continue
        for command in commands(block):
            run_command(command, folder=folder, where=f"{document.name}:{block.line}")


# Documents whose commands train or measure for more than some seconds.
LONG = {
    "add-a-mechanism.md",
    "audio.md",
    "claims.md",
    "costs.md",
    "documents.md",
    "images.md",
    "language-models.md",
    "look.md",
    "overview.md",
    "pretrained.md",
    "report.md",
    "study.md",
    "synthetic-tasks.md",
    "train.md",
}


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(path, marks=[pytest.mark.stress] if path.name in LONG else [])
        for path in DOCUMENTS
    ],
    ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS],
)
def test_document_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if (ROOT / "examples").is_dir():
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    run_document(document, folder=tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_options_exist(document: Path) -> None:
    """The options of every `regard` command are known to its verb, also where it is not run."""
    for block in blocks(document.read_text(encoding="utf-8"), skipped=True):
        for command in commands(block) if block.language in COMMANDS else ():
            words = shlex.split(ASSIGNMENTS.sub("", command), comments=True)
            if words[:1] != ["regard"] or words[1].startswith("-"):
                continue
            known = {option for each in verb_command(words[1]).params for option in each.opts}
            options = {word.partition("=")[0] for word in words[2:] if word.startswith("--")}
            assert options <= known | {"--help"}, f"{document.name}:{block.line}: {command}"


@cache
def verb_command(name: str) -> Any:
    app = typer.Typer()
    app.command()(verb_function(name))
    return typer.main.get_command(app)


@pytest.mark.parametrize("path", [*DOCUMENTS, *sorted((ROOT / "examples").glob("*.py"))])
def test_imports_are_public(path: Path) -> None:
    """Documents and examples import from packages, not from files."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        found = [each.text for each in blocks(text, skipped=True) if each.language == "python"]
        text = "\n".join(found)
    modules = set(re.findall(r"^\s*(?:from|import) (regard(?:\.\w+)*)", text, re.MULTILINE))
    files = {name for name in modules if not (ROOT / "src" / name.replace(".", "/")).is_dir()}
    assert files == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(document: Path) -> None:
    assert dead_links(document) == []


def test_ci_runs_the_commands_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    documented = {command for block in blocks(readme) for command in commands(block)}
    run = re.findall(r"^make .*$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert run == ["make lint", "make test"]
    assert set(run) <= documented


MKDOCS = ROOT / "mkdocs.yml"


def build_site(settings: Path, *, site: Path) -> subprocess.CompletedProcess[str]:
    """Run mkdocs as `make docs` does."""
    recipe = re.search(
        r"\$\(BIN\)/mkdocs (build .*)--site-dir", (ROOT / "Makefile").read_text("utf-8")
    )
    assert recipe is not None
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *recipe[1].split(), "-f", settings, "--site-dir", site],
        capture_output=True,
        text=True,
        check=False,
    )


def test_site_with_a_dead_link(tmp_path: Path) -> None:
    settings = tmp_path / "mkdocs.yml"
    shutil.copy(MKDOCS, settings)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[gone](gone.md)\n")
    done = build_site(settings, site=tmp_path / "site")
    assert done.returncode != 0
    assert "gone.md" in done.stderr


def test_site_is_self_contained(tmp_path: Path) -> None:
    """Pages may link to other sites, but must not load from them."""
    done = build_site(MKDOCS, site=tmp_path)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert tmp_path / "index.html" in pages
    for page in pages:
        html = page.read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|img|link|iframe)[^>]+(?:https?:)?//[^>]*>", html) == []
    for sheet in tmp_path.rglob("*.css"):
        styles = sheet.read_text(encoding="utf-8")
        assert re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", styles) == [], sheet


# Tests of the functions above, with small documents.


def document(folder: Path, text: str) -> Path:
    path = folder / "document.md"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_blocks_share_a_namespace_and_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = """
        ```python
        count = 3
        ```
        ```python
        from pathlib import Path
        Path("count.txt").write_text(str(count))
        ```
        ```console
        $ cat count.txt \\
            > copy.txt
        what is shown is not run
        ```
        - in a list
            ```bash
            # nor is a comment
            mv copy.txt moved.txt
            ```
        """
    run_document(document(tmp_path, text), folder=tmp_path)
    assert (tmp_path / "moved.txt").read_text() == "3"


def test_failing_block(tmp_path: Path) -> None:
    path = document(tmp_path, "Words.\n\n```python\nx = 1\nx / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as raised:
        run_document(path, folder=tmp_path)
    last = raised.traceback[-1]
    assert (str(last.path), last.lineno + 1) == (str(path), 5)


def test_failing_command(tmp_path: Path) -> None:
    path = document(tmp_path, "```console\n$ echo because >&2; exit 3\n```\n")
    with pytest.raises(AssertionError, match=r"document.md:2: `echo .*` failed\s+because"):
        run_document(path, folder=tmp_path)


def test_regard_under_test_is_run(tmp_path: Path) -> None:
    run_document(document(tmp_path, "```sh\nregard --version > v\n```\n"), folder=tmp_path)
    assert (tmp_path / "v").read_text().startswith("regard ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- not run: -->\n```python\n1/0\n```\n", "'not run' without a reason"),
        ("<!-- not run -->\n\n```python\n1/0\n```\n", "'not run' without a reason"),
        ("```py\n1/0\n```\n", "language 'py'; write 'python'"),
        ("```python\n1/0\n", "unclosed block"),
        ("```console\n$ make demo tset\n```\n", "names {'tset'}, not in the Makefile"),
        ("```console\n$ A=1 make -j 2 B=3 nothing && echo\n```\n", "not in the Makefile"),
    ],
)
def test_invalid_document(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(message)):
        run_document(document(tmp_path, text), folder=tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "<!-- not run: needs an hour -->\n```python\n1/0\n```\n",
        "<!-- not run: needs an hour -->\n\n```console\n$ false\n```\n",
        "```text\n1/0\n```\n",
        "```console\n$ make demo\n$ X=1 make test\n$ git clone somewhere\n$ cd somewhere\n```\n",
    ],
)
def test_skipped_blocks(tmp_path: Path, text: str) -> None:
    run_document(document(tmp_path, text), folder=tmp_path)


def test_skip_applies_to_one_block(tmp_path: Path) -> None:
    text = "<!-- not run: no -->\n```python\n1/0\n```\n```python\n1/0\n```\n"
    with pytest.raises(ZeroDivisionError):
        run_document(document(tmp_path, text), folder=tmp_path)


def test_dead_links(tmp_path: Path) -> None:
    text = """
        [here](document.md#place) [web](https://example.org/x) [place](#place) [gone](gone.md)
        ![picture](no.png "title") `[code](not.md)`

        ```text
        [code](not.md)
        ```
        """
    assert dead_links(document(tmp_path, text)) == ["gone.md", "no.png"]
