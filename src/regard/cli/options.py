"""Command-line options that several verbs share; output, and lines and a status on standard error.

An option is a keyword of a command: `length: Annotated[int, "Sequence length."] = 1024`, with a name of its
value before the help if Typer's does not do: `Annotated[Path | None, "FILE", "Test data."]`.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict, get_args, get_type_hints

import typer

from regard.core.errors import CONTROLS, printable_lines
from regard.core.formatting import duration_text
from regard.tasks import TASKS

if TYPE_CHECKING:
    from rich.text import Text

TaskName = Annotated[str | None, "[TASK]", f"One of: {', '.join(TASKS)}."]
SourceColumn = Annotated[
    str | None,
    "COLUMN",
    "Source or text column: an index from 0, a header name or a JSON key; several: lemma,tags.",
]
TargetColumn = Annotated[str | None, "COLUMN", "Target or label column, likewise."]
Header = Annotated[bool, "The first row is a header."]
SkipBadRows = Annotated[bool, "Skip malformed rows and list them."]
RunSeed = Annotated[int | None, "Random seed for initialisation and data order."]
Threads = Annotated[int | None, "CPU threads; default: all cores."]
CpuDevice = Annotated[str | None, "DEVICE", "cpu, the only one so far, or auto."]
Device = Annotated[str | None, "DEVICE", "cpu, cuda, cuda:N, mps or auto; default: cpu."]
Plugins = Annotated[
    list[str] | None,
    "FILE.py:CLASS",
    "Your own mechanism, model, task or metric, or an entry point's name. Repeatable.",
]
Only = Annotated[list[str] | None, "NAME", "A mechanism to include. May be repeated."]
Json = Annotated[bool, "Print JSON, for programs."]
RecordJson = Annotated[bool, "Print the record as JSON."]


def parse_int(value: str | int) -> str | int:
    """The integer that the text spells, else the text itself.

    `_validated_seed` rejects the text: Typer would reword an error raised here, without the value.
    """
    try:
        return int(value)
    except ValueError:
        return value


def _validated_seed(seed: str | int) -> int:
    from regard.api.options import validate_seed

    return validate_seed(seed)


Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="NUMBER",
        help="Random seed, 0 or more.",
        parser=parse_int,
        callback=_validated_seed,
    ),
]


class RunOptions(TypedDict):
    """The options of a training run that `train`, `plan` and `study` share: data, recipe, budget."""

    train_file: Annotated[
        str | None,
        "FILE",
        "Training data: pairs, labelled texts or plain text; SOURCE,TARGET for parallel files; "
        "a folder of recordings or images; for classify also film-languages, movie-reviews or "
        "movie-sentences.",
    ]
    validation_file: Annotated[
        str | None, "FILE", "Validation data; else split off the training data by hash."
    ]
    test_file: Annotated[str | None, "FILE", "Test data."]
    pretrain_file: Annotated[
        str | None, "FILE", "Text for the pre-training stage, one document per line."
    ]
    format: Annotated[str | None, "File format: tsv, csv, jsonl, dictionary, lines or labelled."]
    source_column: SourceColumn
    target_column: TargetColumn
    header: Header
    skip_bad_rows: SkipBadRows
    recipe: Annotated[str | None, "NAME", "A shipped recipe or FILE.toml; default: the task's own."]
    set: Annotated[list[str] | None, "KEY=VALUE", "Such as model.num_layers=3. Repeatable."]
    steps: Annotated[int | None, "Stop after this many optimizer steps."]
    minutes: Annotated[float | None, "Stop after this many minutes."]
    device: Annotated[
        str | None,
        "DEVICE",
        "cpu, cuda, cuda:N, mps or auto: training.device. Default: the recipe's.",
    ]
    threads: Annotated[int | None, "CPU threads; default: all cores, in a study 1 per run."]


def typer_command(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its texts as options of Typer, and with `RunOptions` for `**run_options`."""
    hints = get_type_hints(RunOptions, include_extras=True)
    shared = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=False if get_args(hint)[0] is bool else None,
            annotation=hint,
        )
        for name, hint in hints.items()
    ]
    own = list(signature(command, eval_str=True).parameters.values())
    if own and own[-1].kind is Parameter.VAR_KEYWORD:
        own = sorted([*shared, *own[:-1]], key=lambda each: each.kind)
    parameters = [each.replace(annotation=_typer_annotation(each)) for each in own]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _typer_annotation(parameter: Parameter) -> Any:
    """[metavar and] help as an option or argument; a bool has no --no- form, and `as_json` is --json."""
    kind, *texts = get_args(parameter.annotation)
    if not all(isinstance(text, str) for text in texts):
        return parameter.annotation
    metavar, help_text = (None, *texts)[-2:]
    if parameter.kind is not Parameter.KEYWORD_ONLY:
        return Annotated[kind, typer.Argument(metavar=metavar, help=help_text)]
    flags = [f"--{parameter.name.removeprefix('as_').replace('_', '-')}"] if kind is bool else []
    return Annotated[kind, typer.Option(*flags, metavar=metavar, help=help_text)]


def keywords(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command, its `locals()`, as keywords of the function of its verb.

    What is not given has the function's default. `as_json` and `as_csv` are options of the output.
    """
    whole = {**values, **values.get("run_options", {})}
    dropped = ("run_options", "as_json", "as_csv")
    return {
        name: value for name, value in whole.items() if value is not None and name not in dropped
    }


def command_line() -> str:
    """The command that is running, for records."""
    return shlex.join(["regard", *sys.argv[1:]])


def echo(text: str, *, err: bool = False) -> None:
    """Print text for people; control characters are shown as escapes."""
    typer.echo(printable_lines(text), err=err)


def echo_json(text: str, *, newline: bool = True) -> None:
    """Print JSON; control characters, which are within strings, as escapes of JSON."""
    typer.echo(CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text), nl=newline)


def echo_data(text: str) -> None:
    """Print data, without a newline: exact in a file or a pipe, with escapes in a terminal.

    Lone surrogates, which have no bytes, are always escaped.
    """
    shown = printable_lines(text) if sys.stdout.isatty() else text
    # Not with Typer, which removes escape sequences where there is no terminal.
    sys.stdout.write(shown.encode(errors="backslashreplace").decode())
    sys.stdout.flush()


def log(line: str) -> None:
    """Print a line to standard error; standard output is for the result."""
    echo(line, err=True)


class Status(NamedTuple):
    """`log` prints a line, plain or styled, to standard error; `progress` changes the status below."""

    log: Callable[[str | Text], None]
    progress: Callable[[str], None]


@contextmanager
def terminal_status(text: str) -> Iterator[Status]:
    """A status with a spinner, in a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    with console.status(text) as status:
        yield Status(
            log=lambda line: console.print(
                Text(printable_lines(line)) if isinstance(line, str) else line, soft_wrap=True
            ),
            progress=lambda text: status.update(Text(printable_lines(text))),
        )


REFRESH_SECONDS, LINE_SECONDS = 0.2, 30.0


@contextmanager
def progress_display(unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar in a terminal, elsewhere a line every 30 seconds, as a function of done and total counts."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True, highlight=False)
    columns = (BarColumn(), TextColumn("{task.description}", markup=False))
    bar = Progress(*columns, console=console, auto_refresh=False, transient=True)
    task = bar.add_task("", total=None)
    began = shown = time.monotonic()

    def update(done: int, total: int | None) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown < (REFRESH_SECONDS if console.is_terminal else LINE_SECONDS):
            return
        shown = now
        count = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        text = f"{count} {unit}, {duration_text(round(now - began))}"
        if console.is_terminal:
            bar.start()
            bar.update(task, completed=done, total=total, description=text, refresh=True)
        else:
            log(text)

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()
