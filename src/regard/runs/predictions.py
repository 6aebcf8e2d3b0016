"""What a finished run wrote for every held-out source, kept beside the right answers.

    {"source": "cat", "predicted": "K AE T", "answers": ["K AE T"]}       one row an item, in their order

Whatever is asked later about single items is answered from these rows, without the model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.core.errors import RegardError
from regard.core.names import look_up
from regard.core.whole_file import write_whole
from regard.runs.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """The items of one part; `answers[i]` are the right outputs for `sources[i]`."""

    sources: tuple[str, ...]
    predicted: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.sources)


def write_predictions(
    folder: RunFolder,
    part: str,
    *,
    sources: Sequence[str],
    predicted: Sequence[str],
    answers: Sequence[Sequence[str]],
) -> None:
    """Write the file of a part; one without items has a file without rows."""
    rows = (
        {"source": source, "predicted": written, "answers": list(right)}
        for source, written, right in zip(sources, predicted, answers, strict=True)
    )
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_whole(folder.predictions[part], text)


def read_predictions(folder: RunFolder, part: str = "test") -> Predictions:
    """The predictions of a finished run on "dev" or "test"."""
    path = look_up("part", part, folder.predictions)
    if folder.record.is_file() and not path.is_file():
        raise RegardError(
            f"The run '{folder.path}' was finished without keeping its predictions: it has no "
            f"{path.name}. Remove its record.json and score it again: "
            f"regard train --resume {folder.path}"
        )
    rows = folder.read_rows(path)
    if not all(map(_is_row, rows)):
        raise RegardError(
            f"'{path}' has a row that is not a source, a prediction and answers. Restore it, or remove "
            f"it and {folder.record.name}, and score the run again: regard train --resume {folder.path}"
        )
    return Predictions(
        sources=tuple(row["source"] for row in rows),
        predicted=tuple(row["predicted"] for row in rows),
        answers=tuple(tuple(row["answers"]) for row in rows),
    )


def _is_row(row: Any) -> bool:
    match row:
        case {"source": str(), "predicted": str(), "answers": [*answers]}:
            return bool(answers) and all(isinstance(answer, str) for answer in answers)
    return False
