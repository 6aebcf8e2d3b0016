"""manifest.json of a folder: size and SHA-256 of its files, so that damage and mix-ups are errors.

    {"keys": ["9f86d081884c7d65"],                               what the folder is for
     "files": {"spec.json": [{"size": 812, "sha256": "…"}]},
     "logs": {"metrics.jsonl": [{"size": 96, "sha256": "…"}]},   of the first `size` bytes: a log grows
     "facts": {},
     "checksum": "…"}                                            of all the rest

A kill at any point leaves a valid folder: before a file is replaced or removed, the manifest is written
with the old and the new state of the file (null if it does not exist), and then with the new one alone.
The manifest protects against accidents, not against someone who rewrites it together with a file.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from typing import Any

from regard.core.atomic_write import atomic_write
from regard.core.errors import RegardError

MANIFEST = "manifest.json"
MAX_BYTES = 1 << 24  # of a manifest
RETRIES = 5  # if another process writes to the folder

State = dict[str, Any] | None  # size and sha256; None: there is no file
States = dict[str, list[State]]


def content_state(content: bytes) -> State:
    """The state of a file with this content."""
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def validate_no_link(path: Path) -> None:
    """Raise if `path` is a symbolic link: a folder of regard is written in place, not somewhere else."""
    if path.is_symlink():
        raise RegardError(
            f"'{path}' is a symbolic link, which regard does not follow inside its folders. Replace it by "
            "what it points to."
        )


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content of a manifest: accepted states by name, and further facts about the folder."""

    keys: list[str] = field(default_factory=list)
    files: States = field(default_factory=dict)
    logs: States = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def as_text(self) -> str:
        """The text of the file, ending with a checksum."""
        values = {name: getattr(self, name) for name in ("keys", "files", "logs", "facts")}
        body = json.dumps(values, sort_keys=True)
        checksum = hashlib.sha256(body.encode()).hexdigest()
        return json.dumps({**values, "checksum": checksum}, indent=1, sort_keys=True) + "\n"


class Manifest:
    """The manifest of a folder, read again for every operation. `way_out` ends errors about a file."""

    def __init__(
        self, folder: Path, *, way_out: Callable[[str], str] = lambda _: "Restore it from a copy."
    ) -> None:
        self.folder = folder
        self.path = folder / MANIFEST
        self.way_out = way_out
        self._inode: tuple[int, int] | None = None
        self._keys: list[str] = []

    def hold(self) -> None:
        """Keep to the folder that is here now: writing raises if another one has taken its place."""
        self._inode, self._keys = self._folder_inode(), self.read().keys

    def create(self, *, key: str | None = None) -> None:
        """Write a manifest without files."""
        self._write(Content(keys=[] if key is None else [key]))

    def read(self) -> Content:
        """The content; raises if it is missing or damaged."""
        return self._parse(self._text())

    def _text(self) -> str:
        try:
            return _read_regular(self.path, limit=MAX_BYTES).decode("utf-8")
        except FileNotFoundError as error:
            raise RegardError(
                f"'{self.folder}' has no {MANIFEST}: it was removed, or the folder was removed, moved, or "
                "written by another version of regard. Restore it, or use another folder."
            ) from error
        except (OSError, ValueError) as error:
            raise self._damaged(str(error)) from error

    def _parse(self, text: str) -> Content:
        try:
            values = json.loads(text)
            values.pop("checksum")
            content = Content(**values)
            is_valid = content.as_text() == text
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._damaged(str(error)) from error
        if not is_valid:
            raise self._damaged("its checksum does not match")
        return content

    def _damaged(self, why: str) -> RegardError:
        return RegardError(
            f"'{self.path}' was modified or damaged ({why}). Restore it from a copy, or use another folder."
        )

    def _write(self, content: Content) -> None:
        validate_no_link(self.path)
        inode = self._folder_inode()
        if inode is None or self._inode not in (None, inode):
            raise self._exchanged()
        self._inode, self._keys = inode, content.keys
        atomic_write(self.path, content.as_text())

    def _folder_inode(self) -> tuple[int, int] | None:
        facts = self.folder.stat() if self.folder.is_dir() else None
        return None if facts is None else (facts.st_dev, facts.st_ino)

    def _exchanged(self) -> RegardError:
        return RegardError(
            f"The folder '{self.folder}' was removed, moved or exchanged while it was used. Move it back "
            "and resume, or start again in another folder."
        )

    @contextmanager
    def changing(
        self,
        files: Mapping[str, State],
        *,
        logs: Mapping[str, State] | None = None,
        key: str | None = None,
        facts: Mapping[str, Any] | None = None,
        meanwhile: Mapping[str, Any] | None = None,
    ) -> Iterator[None]:
        """Accept old and new states during the block, and only the new ones after it.

        `facts` replace the facts of the folder after the block, `meanwhile` are added during it.
        """
        before = self.read()
        if self._keys and not set(self._keys) & set(before.keys):
            raise self._exchanged()
        own_facts = before.facts if facts is None else dict(facts)
        self._write(
            Content(
                keys=list(dict.fromkeys([*before.keys, *([] if key is None else [key])])),
                files=_either(before.files, files),
                logs=_either(before.logs, logs or {}),
                facts={**before.facts, **(meanwhile or {})},
            )
        )
        yield
        self._write(
            Content(
                keys=before.keys if key is None else [key],
                files=_after(before.files, files),
                logs=_after(before.logs, logs or {}),
                facts=own_facts,
            )
        )

    def replace(
        self,
        path: Path,
        content: str | bytes,
        *,
        logs: Mapping[str, State] | None = None,
        complete_logs: Iterable[str] = (),
    ) -> None:
        """Write a file atomically. `logs` are the states of logs that belong to it.

        `complete_logs` do not grow any more, and are listed as files.
        """
        validate_no_link(path)
        data = content.encode("utf-8") if isinstance(content, str) else content
        complete = {name: _actual_state(self.folder / name) for name in complete_logs}
        with self.changing(
            {self._name(path): content_state(data), **complete},
            logs={**(logs or {}), **dict.fromkeys(complete)},
        ):
            atomic_write(path, data)

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove files."""
        paths = list(paths)
        with self.changing({self._name(path): None for path in paths}):
            for path in paths:
                path.unlink(missing_ok=True)

    def add(self, path: Path) -> None:
        """List a file that exists."""
        with self.changing({self._name(path): _actual_state(path)}):
            pass

    def set_facts(self, **facts: Any) -> None:
        """Replace some of the facts about the folder."""
        before = self.read()
        if {**before.facts, **facts} != before.facts:
            self._write(replace(before, facts={**before.facts, **facts}))

    def verify(self, names: Iterable[str], *, may_be_missing: Iterable[str] = ()) -> Content:
        """Raise unless the files of these names are as they were written; unlisted ones must not exist."""
        names, optional = list(names), set(may_be_missing)

        def check(content: Content) -> Content:
            for name in names:
                self._verify_one(name, content, is_optional=name in optional)
            return content

        return self._retried(check)

    def read_bytes(self, path: Path) -> bytes:
        """The content of a listed file, as it was written; of a log also what was added since."""
        name = self._name(path)

        def check(content: Content) -> bytes:
            self._validate_links(name)
            try:
                data = _read_regular(path)
            except OSError as error:
                if isinstance(error, FileNotFoundError) and name not in content.files:
                    raise
                raise self._unreadable(path, error) from error
            if name in content.logs:
                self._verify_log(name, content.logs[name], data)
            elif content_state(data) not in content.files.get(name, [None]):
                raise self._changed(name, listed=name in content.files)
            return data

        return self._retried(check)

    def verify_logs(self, sizes: Mapping[str, int]) -> None:
        """Raise unless the first bytes of these logs, as many as `sizes`, are as they were written."""
        content = self.read()
        for name, size in sizes.items():
            listed = [*content.logs.get(name, []), *content.files.get(name, [])]
            states = [state for state in listed if state and state["size"] == size]
            self._validate_links(name)
            if size:
                self._verify_log(name, states, self._data(self.folder / name))

    def _verify_one(self, name: str, content: Content, *, is_optional: bool) -> None:
        self._validate_links(name)
        path = self.folder / name
        if name in content.logs and name not in content.files:
            self._verify_log(name, content.logs[name], self._data(path))
            return
        try:
            actual = _actual_state(path)
        except OSError as error:
            raise self._unreadable(path, error) from error
        accepted = content.files.get(name, [None])
        if actual in accepted or (actual is None and is_optional):
            return
        if actual is None:
            raise RegardError(f"'{path}' is missing, but {MANIFEST} lists it. {self.way_out(name)}")
        raise self._changed(name, listed=name in content.files)

    def _verify_log(self, name: str, states: Iterable[State], data: bytes) -> None:
        if not any(state == content_state(data[: state["size"]]) for state in states if state):
            raise self._changed(name, listed=True)

    def _data(self, path: Path) -> bytes:
        try:
            return _read_regular(path)
        except OSError as error:
            raise self._unreadable(path, error) from error

    def _retried(self, check: Callable[[Content], Any]) -> Any:
        """The result of `check`; repeated if another process changes the manifest meanwhile."""
        text = self._text()
        for _ in range(RETRIES):
            try:
                return check(self._parse(text))
            except (RegardError, OSError):
                before, text = text, self._text()
                if text == before:
                    raise
        return check(self._parse(text))

    def _changed(self, name: str, *, listed: bool) -> RegardError:
        why = (
            "was modified, damaged or exchanged: it is not the file that was written"
            if listed
            else "was added"
        )
        return RegardError(f"'{self.folder / name}' {why} (see {MANIFEST}). {self.way_out(name)}")

    def _unreadable(self, path: Path, error: OSError) -> RegardError:
        return RegardError(
            f"'{path}' cannot be read ({error.strerror or error}). {self.way_out(self._name(path))}"
        )

    def _validate_links(self, name: str) -> None:
        path = self.folder
        for part in Path(name).parts:
            path /= part
            validate_no_link(path)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()


def _either(before: States, changes: Mapping[str, State]) -> States:
    """States before or after the changes."""
    found = {name: list(states) for name, states in before.items()}
    for name, state in changes.items():
        states = found.setdefault(name, [None])
        if state not in states:
            states.append(state)
    return found


def _after(before: States, changes: Mapping[str, State]) -> States:
    found = {name: states for name, states in before.items() if name not in changes}
    return {**found, **{name: [state] for name, state in changes.items() if state is not None}}


def _actual_state(path: Path) -> State:
    try:
        with _open_regular(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return {"size": file.tell(), "sha256": digest}
    except (FileNotFoundError, NotADirectoryError):
        return None


def _read_regular(path: Path, *, limit: int = -1) -> bytes:
    with _open_regular(path) as file:
        data = file.read(limit)
        if file.read(1):
            raise OSError(f"it has more than {limit} bytes")
        return data


def _open_regular(path: Path) -> BufferedReader:
    """Open a regular file; a named pipe would block, and a device may not end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("it is not a regular file")
    return path.open("rb")
