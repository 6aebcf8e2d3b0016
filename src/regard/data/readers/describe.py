"""Descriptive statistics of rows: lengths, histograms, tokens, labels, numbers, duplicates, row errors.

Of recordings also hours, durations, sample rates, speakers and splits; of images sizes, channels, splits.

The file is streamed. Memory grows with the number of distinct words and eight bytes of hash per row.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from regard.core.errors import RegardError
from regard.data.audio.clips import AudioClip
from regard.data.audio.summary import AudioSummary
from regard.data.datasets import DATASETS, dataset_reader
from regard.data.images.pixels import image_facts
from regard.data.images.summary import ImageSummary
from regard.data.labels import ClassBalance
from regard.data.readers.arrays import ArrayReader
from regard.data.readers.audio_folder import TARGETS, AudioFolderReader
from regard.data.readers.audio_layouts import AUDIO
from regard.data.readers.columns import columns_text
from regard.data.readers.folder_layouts import has_files
from regard.data.readers.formats import EXTENSIONS, FORMATS, HEADER_FORMATS
from regard.data.readers.header import LABEL_NAMES, MIN_LABEL_COUNT, are_column_names
from regard.data.readers.image_arrays import ImageArrayReader, has_images
from regard.data.readers.image_folder import IMAGES, ImageFolderReader
from regard.data.readers.media_folder import TARGET_NAMES, MediaFolderReader
from regard.data.readers.text_file import Reader, RowErrors, TextFile, file_exists
from regard.data.readers.text_reader import LARGE_LINE_BYTES, SIDES, TextReader, parse_number
from regard.data.splits import array_key

MAX_BINS = 12
BAR_WIDTH = 40
MOST_COMMON = 10
# Column names of pairs that are not labels.
PAIR_COLUMNS = {"source", "target", "input", "output"}


class Bin(NamedTuple):
    """Number of texts with a length from `low` to `high`, both included."""

    low: int
    high: int
    texts: int


@dataclass(frozen=True, kw_only=True)
class LengthSummary:
    """Summary statistics of a distribution of lengths; quantiles are lengths that occur."""

    minimum: int
    median: int
    mean: float
    quantile_95: int
    maximum: int
    histogram: tuple[Bin, ...]

    @classmethod
    def of(cls, counts: Counter[int]) -> Self:
        """From a non-empty mapping of length → number of texts."""
        total = counts.total()
        return cls(
            minimum=min(counts),
            median=quantile(counts, fraction=0.5),
            mean=sum(length * count for length, count in counts.items()) / total,
            quantile_95=quantile(counts, fraction=0.95),
            maximum=max(counts),
            histogram=histogram(counts),
        )

    def as_json(self) -> dict[str, Any]:
        """The statistics by name; the histogram as a list of [low, high, texts]."""
        return {
            "min": self.minimum,
            "median": self.median,
            "mean": self.mean,
            "quantile_95": self.quantile_95,
            "max": self.maximum,
            "histogram": [list(each) for each in self.histogram],
        }

    def bars(self) -> list[str]:
        """The histogram for a terminal, one line per bin.

        >>> print("\\n".join(LengthSummary.of(Counter({1: 2, 2: 4})).bars()))
        1  ████████████████████                      2
        2  ████████████████████████████████████████  4
        """
        labels = [
            f"{each.low}" if each.low == each.high else f"{each.low}–{each.high}"
            for each in self.histogram
        ]
        width = max(len(label) for label in labels)
        most = max(each.texts for each in self.histogram)
        return [
            f"{label:>{width}}  {bar(each.texts / most):<{BAR_WIDTH}}  {each.texts:,}"
            for label, each in zip(labels, self.histogram, strict=True)
        ]


def quantile(counts: Counter[int], *, fraction: float) -> int:
    """The smallest length that at least `fraction` of the texts do not exceed."""
    target = fraction * counts.total()
    cumulative = 0
    for length in sorted(counts):
        cumulative += counts[length]
        if cumulative >= target:
            return length
    return max(counts)


def histogram(counts: Counter[int]) -> tuple[Bin, ...]:
    """Equal bins up to the 99 % quantile, and one bin beyond it."""
    low, most, highest = min(counts), quantile(counts, fraction=0.99), max(counts)
    width = -(-(most - low + 1) // MAX_BINS)
    edges = [*range(low, most + 1, width)]
    last = edges[-1] + width - 1
    ends = [edge + width - 1 for edge in edges]
    if highest > last:
        edges.append(last + 1)
        ends.append(highest)
    ends[-1] = max(min(ends[-1], highest), edges[-1])
    return tuple(
        Bin(start, end, sum(count for length, count in counts.items() if start <= length <= end))
        for start, end in zip(edges, ends, strict=True)
    )


def bar(fraction: float) -> str:
    """A bar of block characters; never empty for a positive fraction."""
    eighths = max(round(fraction * BAR_WIDTH * 8), 1 if fraction else 0)
    return "█" * (eighths // 8) + ("", *"▏▎▍▌▋▊▉")[eighths % 8]


class Side:
    """Statistics of the inputs or of the targets: of texts, labels, numbers or sequences of vectors."""

    def __init__(self, name: str, *, is_label: bool = False) -> None:
        self.name, self.is_label = name, is_label
        self.lengths: dict[str, Counter[int]] = {}
        self.counts: dict[str, Counter[str]] = {}
        self.numbers: list[float] = []

    def add(self, value: Any) -> None:
        """Count one value."""
        if value is None or isinstance(value, AudioClip):  # of clips there is an `AudioSummary`
            return
        if isinstance(value, np.ndarray):
            self._count("frames", len(value))
            self._count("features", value.shape[1])
        elif isinstance(value, float):
            self.numbers.append(value)
        elif self.is_label:
            self.counts.setdefault("label", Counter())[value] += 1
        else:
            words = value.split()
            self._count("characters", len(value))
            self._count("words", len(words))
            self.counts.setdefault("character", Counter()).update(value)
            self.counts.setdefault("word", Counter()).update(words)

    def _count(self, unit: str, length: int) -> None:
        self.lengths.setdefault(unit, Counter())[length] += 1

    def summaries(self) -> dict[str, LengthSummary]:
        """The lengths in each unit."""
        return {unit: LengthSummary.of(counts) for unit, counts in self.lengths.items()}

    def values(self) -> dict[str, float]:
        """Statistics of numbers."""
        if not self.numbers:
            return {}
        numbers = np.array(self.numbers)
        return {
            "min": float(numbers.min()),
            "median": float(np.median(numbers)),
            "mean": float(numbers.mean()),
            "deviation": float(numbers.std()),
            "max": float(numbers.max()),
        }

    def as_json(self) -> dict[str, Any]:
        """All statistics by name."""
        found: dict[str, Any] = {
            unit: summary.as_json() for unit, summary in self.summaries().items()
        }
        for thing, counts in self.counts.items():
            found[f"distinct_{thing}s"] = len(counts)
            found[f"common_{thing}s"] = [list(pair) for pair in most_common(counts)]
            if thing == "label":
                found["class_balance"] = ClassBalance.of(counts.elements()).as_json()
        return found | ({"values": self.values()} if self.numbers else {})

    def lines(self) -> list[str]:
        """Common tokens or labels, a histogram of lengths, or statistics of numbers."""
        found = [
            ClassBalance.of(counts.elements()).describe("rows")
            if thing == "label"
            else f"{self.name}: {distinct(len(counts), thing)}: {format_counts(most_common(counts))}"
            for thing, counts in self.counts.items()
        ]
        if values := self.values():
            shown = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
            found.append(f"{self.name}: {shown}")
        summaries = self.summaries()
        unit = "frames" if "frames" in summaries else "characters"
        if "words" in summaries and summaries["words"].maximum > 1:
            unit = "words"
        if unit in summaries:
            found += ["", f"{self.name} length in {unit}", *summaries[unit].bars()]
        return ["", *found] if found else []


@dataclass(frozen=True, kw_only=True)
class Description:
    """Statistics of rows. `duplicate_rows` counts rows whose input and target occurred before.

    `columns` are those of the file, each with whether it is used; `note` is on a header read as a pair, and
    `media` are the statistics of recordings or images.
    """

    name: str
    format: str
    columns: tuple[tuple[str, bool], ...]
    rows: int
    distinct_inputs: int
    duplicate_rows: int
    input: Side
    target: Side
    errors: RowErrors
    note: str = ""
    media: AudioSummary | ImageSummary | None = None

    def as_json(self) -> dict[str, Any]:
        """All statistics by name."""
        return {
            "name": self.name,
            "format": self.format,
            "columns": [{"name": name, "used": used} for name, used in self.columns],
            "rows": self.rows,
            "distinct_inputs": self.distinct_inputs,
            "duplicate_rows": self.duplicate_rows,
            self.input.name: self.input.as_json() if self.media is None else self.media.as_json(),
            self.target.name: self.target.as_json(),
            "row_errors": self.errors.as_json(),
            **({"note": self.note} if self.note else {}),
        }

    def as_text(self) -> str:
        """The statistics for a terminal, with a histogram of lengths for each side."""
        lines = [
            f"{self.name} ({self.format})",
            *([columns_text(self.columns)] if self.columns else []),
            *([self.note] if self.note else []),
            "",
            f"rows              {self.rows:>10,}",
            f"distinct inputs   {self.distinct_inputs:>10,}",
            f"duplicate rows    {self.duplicate_rows:>10,}",
            f"bad rows          {self.errors.count:>10,}",
            *self._lengths(),
        ]
        lines += ["", *self.media.lines()] if self.media is not None else self.input.lines()
        lines += self.target.lines()
        if self.errors.count:
            lines += ["", self.errors.summary()]
        return "\n".join(lines)

    def _lengths(self) -> list[str]:
        """A table of lengths, one row for each unit of each side."""
        table = {"length": ["min", "median", "mean", "95 %", "max"]}
        if isinstance(self.media, AudioSummary) and (seconds := self.media.durations()):
            table[f"{self.input.name} seconds"] = [f"{value:.2f}" for value in seconds.values()]
        for side in (self.input, self.target):
            for unit, found in side.summaries().items():
                ends = [f"{value:,}" for value in (found.minimum, found.median)]
                ends += [f"{found.mean:.1f}", f"{found.quantile_95:,}", f"{found.maximum:,}"]
                table[f"{side.name} {unit}"] = ends
        if len(table) == 1:  # images have sizes
            return []
        width = max(18, *(len(name) for name in table))
        lines = (
            f"{name:<{width}}{''.join(f'{value:>8}' for value in row)}"
            for name, row in table.items()
        )
        return ["", *lines]


def describe(reader: Reader, *, target: str | None = None, name: str = "") -> Description:
    """Describe the rows of a reader of any kind; row errors are counted and do not raise.

    `target` is what a reader of an embedded dataset or of arrays has beside its inputs, `name` its name.
    """
    errors = RowErrors(skip=True)
    columns: list[tuple[str, bool]] = []
    if isinstance(reader, AudioFolderReader | ImageFolderReader | ImageArrayReader):
        return _describe_media(reader, name=name, errors=errors)
    if isinstance(reader, TextReader):
        target, kind, columns = reader.target, reader.format_name, reader.all_columns()
        name = name or ", ".join(str(path) for path in (reader.path, reader.target_path) if path)
    else:
        is_array = isinstance(reader, ArrayReader)
        target = target or ("label" if is_array else "text")
        kind = "array" if is_array else "embedded"
    sides = SIDES[target] if isinstance(reader, TextReader) else ("input", SIDES[target][1])
    inputs, targets = Side(sides[0]), Side(sides[1] or "target", is_label=target == "label")
    rows, seen, pairs = 0, set[int](), set[int]()
    for row in reader.rows(errors=errors):
        value = row.target
        if target == "number" and isinstance(value, str) and (value := parse_number(value)) is None:
            reason = f"not a number: {row.target[:40]!r}"
            errors.report(path=reader.path, line=row.line, reason=reason)
            continue
        rows += 1
        key = row.input if isinstance(row.input, str) else array_key(row.input)
        seen.add(hash64(key))
        pairs.add(hash64(f"{key}\0{value}"))
        inputs.add(row.input)
        targets.add(value)
    return Description(
        name=name or str(reader.path),
        format=kind,
        columns=tuple(columns),
        rows=rows,
        distinct_inputs=len(seen),
        duplicate_rows=rows - len(pairs),
        input=inputs,
        target=targets,
        errors=errors,
        note=reader.header_note if isinstance(reader, TextReader) else "",
    )


def _describe_media(
    reader: AudioFolderReader | ImageFolderReader | ImageArrayReader,
    *,
    name: str,
    errors: RowErrors,
) -> Description:
    """Statistics of recordings or images, with their splits."""
    is_embedded = isinstance(reader, ImageArrayReader) and reader.load is not None
    format_name, kind = "embedded" if is_embedded else "array", "label"
    if isinstance(reader, MediaFolderReader):
        layout = reader.layout()
        format_name, kind = layout.name, reader.target_kind(layout)
    media: AudioSummary | ImageSummary
    is_audio = isinstance(reader, AudioFolderReader)
    media = AudioSummary() if is_audio else ImageSummary()
    targets = Side(TARGET_NAMES[kind], is_label=kind == "label")
    rows, seen, pairs = 0, set[str](), set[int]()
    for split, row in reader.split_rows(errors=errors):
        if isinstance(media, AudioSummary):
            key = row.input.content_hash()
            media.add(row.input, split=split, key=key)
        else:
            value = row.input
            facts = image_facts(value) if isinstance(value, np.ndarray) else value.facts()
            key = facts.key
            media.add(facts, split=split)
        rows += 1
        seen.add(key)
        pairs.add(hash64(f"{key}\0{row.target}"))
        targets.add(row.target)
    return Description(
        name=name or str(reader.path),
        format=format_name,
        columns=(),
        rows=rows,
        distinct_inputs=len(seen),
        duplicate_rows=rows - len(pairs),
        input=Side("audio" if is_audio else "images"),
        target=targets,
        errors=errors,
        media=media,
    )


def describe_file(file: str, *, target: str | None = None, **options: Any) -> Description:
    """Describe an embedded dataset, a folder, a .npz file, or a text file (`TextReader` options)."""
    path = Path(file)
    if file in DATASETS and not file_exists(path):
        own = DATASETS[file].target
        if given := [name for name, value in options.items() if value not in (None, False)]:
            raise RegardError(
                f"'{file}' is an embedded dataset, which has no {given[0]}. Remove the option."
            )
        if target not in (None, own):
            raise RegardError(
                f"--target {target}: the target of the embedded dataset '{file}' is {own}. Remove it."
            )
        return describe(dataset_reader(file), target=own, name=file)
    if file_exists(path) and path.is_dir():
        return _describe_folder(path, target=target, **options)
    if file.endswith(".npz"):
        kind = ImageArrayReader if has_images(path) else ArrayReader
        return describe(kind(path=path), target=target)
    return describe(
        TextReader.from_text(file, target=target or infer_target(path, **options), **options)
    )


def _describe_folder(path: Path, *, target: str | None, **options: Any) -> Description:
    is_images = has_files(path, IMAGES) and not has_files(path, AUDIO)
    if given := [name for name, value in options.items() if value not in (None, False)]:
        what = "images" if is_images else "audio"
        raise RegardError(
            f"'{path}' is a folder of {what}, which has no {given[0]}. Remove the option."
        )
    if is_images:
        if target not in (None, "label"):
            raise RegardError(f"--target {target}: an image has a label beside it. Remove it.")
        return describe(ImageFolderReader(path=path))
    if target not in (None, *TARGETS):
        raise RegardError(
            f"--target {target}: a recording has a label or a text beside it. Use one of: "
            f"{', '.join(TARGETS)}."
        )
    return describe(AudioFolderReader(path=path, target=target))


def infer_target(path: Path, *, format: str | None = None, **options: Any) -> str:  # noqa: A002
    """What the texts of a file have beside them, by its format and its first record.

    A file of one column has texts alone; JSON objects with a text and a label, or a value, say so, as does
    a header with such names. Targets of a chosen column that recur often are labels. Other files are pairs.
    """
    if format in ("labelled", "text"):
        return "label" if format == "labelled" else "none"
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    name = EXTENSIONS.get(suffix) if format is None else format
    if not file_exists(path):
        return "text"
    if name is None:
        raise RegardError(
            f"Unknown extension of '{path}' (known: {', '.join(EXTENSIONS)}, .npz). Set the format with "
            f"--format: {', '.join(FORMATS)}. Embedded datasets: {', '.join(DATASETS)}."
        )
    if name not in (*HEADER_FORMATS, "jsonl"):
        return "text"
    records = FORMATS[name](
        TextFile(path=path, max_line_bytes=LARGE_LINE_BYTES), errors=RowErrors(skip=True)
    )
    _, fields = next(records, (0, None))
    chosen = options.get("target_column")
    if chosen is not None or options.get("source_column") is not None:
        if str(chosen).lower() in LABEL_NAMES - PAIR_COLUMNS:
            return "label"
        kind = "label" if name == "jsonl" else "text"  # a label of JSON may be a number
        reader = TextReader.from_text(str(path), target=kind, format=format, **options)
        targets = [row.target for row in islice(reader.rows(errors=RowErrors(skip=True)), 1000)]
        return "label" if len(set(targets)) * MIN_LABEL_COUNT <= len(targets) else "text"
    if isinstance(fields, dict) and "text" in fields and "source" not in fields:
        return "label" if "label" in fields else "number" if "value" in fields else "text"
    if isinstance(fields, list) and name != "jsonl":
        if len(fields) == 1:
            return "none"
        is_pair = {field.lower() for field in fields} <= PAIR_COLUMNS
        return "label" if len(fields) == 2 and are_column_names(*fields) and not is_pair else "text"
    return "text"


def most_common(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    """The most frequent, ties by code point."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ordered[:MOST_COMMON])


def format_counts(common: tuple[tuple[str, int], ...]) -> str:
    """Tokens with their counts in one line; a space shows as ␣, a tab as ⇥."""
    visible = {" ": "␣", "\t": "⇥"}
    return ", ".join(f"{visible.get(token, token)} {count:,}" for token, count in common)


def distinct(number: int, thing: str) -> str:
    """Such as "1 distinct word"."""
    return f"{number:,} distinct {thing}{'' if number == 1 else 's'}"


def hash64(text: str) -> int:
    """A 64-bit hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
