"""Descriptive statistics of a small file, length summaries, and `regard data describe`."""

from __future__ import annotations

import gzip
import importlib
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.factories.command_line import regard

from regard.core.errors import MissingDependencyError, RegardError
from regard.data.datasets import DATASETS, dataset_reader
from regard.data.readers.describe import (
    Bin,
    LengthSummary,
    describe,
    describe_file,
    histogram,
    quantile,
)
from regard.data.readers.text_reader import TextReader
from regard.tasks import task_class

CONTENT = "a rose\tune rose\na rose\tune rose\na rose\tla rose\nbroken\nox\tun bœuf\n\tx\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(CONTENT, encoding="utf-8")
    return path


def test_statistics(path: Path) -> None:
    found = describe(TextReader(path=path))
    assert (found.rows, found.distinct_inputs, found.duplicate_rows) == (4, 2, 1)
    source, target = found.input.as_json(), found.target.as_json()
    assert source["words"]["max"] == 2
    assert source["characters"]["mean"] == (3 * 6 + 2) / 4
    assert source["distinct_words"] == 3
    assert source["common_words"] == [["a", 3], ["rose", 3], ["ox", 1]]
    assert target["common_words"][0] == ["rose", 3]
    assert found.errors.count == 2
    assert [row.line for row in found.errors.rows] == [4, 6]


def test_text(path: Path) -> None:
    shown = describe(TextReader(path=path)).as_text()
    assert "rows                       4" in shown
    assert "bad rows                   2" in shown
    assert "source: 3 distinct words: a 3, rose 3, ox 1" in shown
    assert "2  ████████████████████████████████████████  3" in shown
    assert f"{path}:4: too few columns" in shown


def test_data_describe_prints_text_or_json(path: Path) -> None:
    shown = regard("data", "describe", path).stdout
    assert shown == describe(TextReader(path=path)).as_text() + "\n"
    columns = ("--source-column", 1, "--target-column", 0)
    record = json.loads(regard("data", "describe", path, *columns, "--json").stdout)
    assert record["rows"] == 4
    assert record["target"]["common_words"][0] == ["a", 3]
    assert record["row_errors"]["by_reason"] == {"empty target": 1, "too few columns": 1}


def test_unknown_action(path: Path) -> None:
    found = regard("data", "describ", path)
    assert found.returncode == 2
    assert "Unknown action 'describ'. Did you mean 'describe'" in found.stderr


def test_length_summary() -> None:
    summary = LengthSummary.of(Counter([1, 2, 2, 3, 7]))
    assert (summary.minimum, summary.median, summary.maximum) == (1, 2, 7)
    assert summary.mean == 3.0
    assert summary.quantile_95 == 7


def test_quantile() -> None:
    counts = Counter(range(1, 101))
    assert quantile(counts, fraction=0.95) == 95
    assert quantile(counts, fraction=0.5) == 50
    assert quantile(Counter({5: 1}), fraction=0.99) == 5


@pytest.mark.parametrize(
    "lengths",
    [[1], [3, 3], list(range(1, 13)), list(range(1, 14)), list(range(50)), [*range(300), 9_999]],
)
def test_histogram_bins(lengths: list[int]) -> None:
    bins = histogram(Counter(lengths))
    assert sum(each.texts for each in bins) == len(lengths)
    assert bins[0].low == min(lengths)
    assert bins[-1].high == max(lengths)
    assert len(bins) <= 13
    for left, right in pairwise(bins):
        assert left.low <= left.high == right.low - 1


def test_histogram_with_an_outlier() -> None:
    bins = histogram(Counter([1, 2, 3, 4] * 100 + [5000]))
    assert bins == (Bin(1, 1, 100), Bin(2, 2, 100), Bin(3, 3, 100), Bin(4, 4, 100), Bin(5, 5000, 1))


def test_labels_numbers_texts_and_arrays(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("7\tgood film\n5\tbad\n7\tgood film\nx\tbad\n")
    labels = describe_file(str(path), target="label")
    assert labels.as_json()["label"]["common_labels"] == [["7", 2], ["5", 1], ["x", 1]]
    assert labels.duplicate_rows == 1
    numbers = describe_file(str(path), target="number")
    assert numbers.as_json()["number"]["values"]["mean"] == pytest.approx(19 / 3)
    assert numbers.errors.by_reason == {"not a number": 1}
    assert describe_file(str(path), target="none").rows == 4
    arrays = tmp_path / "frames.npz"
    np.savez(arrays, x=np.zeros((5, 2)), lengths=np.array([2, 3]), y=np.array([0, 1]))
    found = describe_file(str(arrays))
    assert found.as_json()["input"]["frames"]["max"] == 3
    assert "2 labels in 2 rows (0 1, 1 1), balanced: majority baseline 50.0 %." in found.as_text()
    assert describe_file(str(arrays), target="number").as_json()["number"]["values"]["mean"] == 0.5


KINDS: list[tuple[str, str | bytes, str]] = [
    ("a.tsv", "a\tb\n", "target"),
    ("a.csv", "a,b\n", "target"),
    ("a.jsonl", '{"source": "a", "target": "b"}\n', "target"),
    ("a.dict", "dog D AO G\n", "target"),
    ("a.tsv.gz", gzip.compress(b"a\tb\n"), "target"),
    ("lines.txt", "One text.\nAnother one.\n", "text"),
    ("lines.txt.gz", gzip.compress(b"One text.\n"), "text"),
    ("labels.jsonl", '{"text": "good", "label": 1}\n', "label"),
    ("numbers.jsonl", '{"text": "good", "value": 1.5}\n', "number"),
]


@pytest.mark.parametrize(("name", "content", "side"), KINDS, ids=[each[0] for each in KINDS])
def test_the_kind_of_a_file_is_inferred(
    tmp_path: Path, name: str, content: str | bytes, side: str
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found = describe_file(str(tmp_path / name))
    assert found.errors.count == 0
    assert side in found.as_json()


def test_formats_without_an_extension(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("sports Who won ?\n")
    assert describe_file(str(path), format="labelled").as_json()["label"]["distinct_labels"] == 1
    assert describe_file(str(path), format="text").rows == 1
    assert describe_file(f"{path},{path}").as_json()["format"] == "lines"
    with pytest.raises(
        RegardError, match=r"data' .*--format: tsv, .*labelled, text.*film-languages"
    ):
        describe_file(str(path))
    with pytest.raises(RegardError, match="is a folder, not a file"):
        describe_file(str(tmp_path))
    with pytest.raises(RegardError, match="There is no file"):
        describe_file("absent.tsv")


def test_class_balance_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,label,text\n1,a,x\n2,a,y\n3,b,z\n")
    columns = {"source_column": "text", "target_column": "label"}
    found = describe_file(str(path), target="label", **columns)
    shown = found.as_text()
    assert "\ncolumns: id (not used), label, text\n" in shown
    assert (
        "2 labels in 3 rows (a 2, b 1): most frequent 'a' (66.7 %, the majority baseline)" in shown
    )
    record = found.as_json()
    assert record["columns"][0] == {"name": "id", "used": False}
    assert record["label"]["class_balance"]["majority_percent"] == pytest.approx(200 / 3)


@pytest.mark.parametrize("name", ["sentiment", "gold", "2"])
def test_labels_of_a_chosen_column(name: str, tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    rows = [f"{number},text {number},{number % 2}\n" for number in range(12)]
    path.write_text(f"id,body,{name}\n{''.join(rows)}")
    found = describe_file(str(path), source_column="body", target_column=name)
    assert found.as_json()["label"]["class_balance"]["counts"] == {"0": 6, "1": 6}
    assert "target" in describe_file(str(path), source_column="id", target_column="body").as_json()


def test_header_of_pairs_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("source,target\na,b\nc,d\n")
    note = "The first row (source, target) looks like a header; to skip it, set --header."
    found = describe_file(str(path))
    assert (found.rows, found.as_json()["note"]) == (3, note)
    assert note in found.as_text()
    skipped = describe_file(str(path), header=True)
    assert (skipped.rows, skipped.note) == (2, "")


def installed(name: str) -> bool:
    try:
        dataset_reader(name)
    except MissingDependencyError:
        return False
    return True


@pytest.mark.parametrize("name", ["cmudict", "film-languages", "film-questions", "word-syllables"])
def test_embedded_datasets(name: str) -> None:
    if not installed(name):
        pytest.skip("its package is not installed")
    found = describe_file(name)
    assert found.rows > 1000
    assert found.as_text().startswith(f"{name} (")
    with pytest.raises(RegardError, match="embedded dataset, which has no header"):
        describe_file(name, header=True)
    other = "number" if name == "cmudict" else "none"
    with pytest.raises(RegardError, match=f"--target {other}: the target of the embedded"):
        describe_file(name, target=other)


@pytest.mark.parametrize("name", DATASETS)
def test_table_of_datasets(name: str) -> None:
    entry = DATASETS[name]
    assert name in task_class(entry.task).datasets
    module = importlib.import_module(f"regard.data.{entry.module}")
    assert callable(getattr(module, entry.class_name))


def test_images_of_a_folder(tmp_path: Path) -> None:
    from tests.factories.images import bright, write_image

    for split, label, seed in (("train", "a", 1), ("train", "b", 2), ("test", "a", 1)):
        write_image(tmp_path / split / label / f"{seed}.png", bright(seed=seed, level=9))
    (tmp_path / "test" / "a" / "broken.png").write_bytes(b"")
    wide = bright(seed=3, level=9, size=(4, 6))
    write_image(tmp_path / "test" / "b" / "3.png", np.repeat(wide[..., None], 3, axis=2))
    found = describe_file(str(tmp_path))
    assert found.format == "label_folders"
    assert (found.rows, found.distinct_inputs, found.errors.count) == (4, 3, 1)
    images = found.as_json()["images"]
    assert images["sizes"] == [[4, 4, 3], [4, 6, 1]]
    assert images["channels"] == {"1": 3, "3": 1}
    assert images["splits"] == {"train": 2, "test": 2}
    assert images["images_in_several_splits"] == 1
    text = found.as_text()
    assert "2 sizes (height×width): 4×4 3, 4×6 1" in text
    assert "splits: train 2, test 2; 1 image occurs in several" in text
    assert "2 labels in 4 rows" in text
    with pytest.raises(RegardError, match="folder of images, which has no format"):
        describe_file(str(tmp_path), format="tsv")
    with pytest.raises(RegardError, match="an image has a label"):
        describe_file(str(tmp_path), target="number")


def test_images_of_arrays(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, images=np.zeros((3, 5, 7), np.uint8), labels=np.array([0, 1, 1]))
    found = describe_file(str(path))
    assert (found.rows, found.distinct_inputs) == (3, 1)
    assert "1 size (height×width): 5×7" in found.as_text()
    assert describe_file("digits").rows == 1797
