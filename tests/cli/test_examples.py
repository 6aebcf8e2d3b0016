"""The plug-ins in examples/, one of each kind: a file that `--plugin` names, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tests.factories.command_line import exit_code
from torch.nn import functional as F

import regard
from regard.core.batches import Batch
from regard.core.protocols import Decode, Loss
from regard.core.records.study import StudyRecord
from regard.core.traits import TargetKind
from regard.data import GeneratedRows, ItemPreprocessor, Row, Standardizer
from regard.data.batching import evaluation_batches
from regard.data.splits import EvalSplit
from regard.mechanisms import REGISTRY
from regard.tasks import EvalResult, Task, TaskOptions
from regard.tasks.metrics import MAE, RMSE

pytestmark = pytest.mark.usefixtures("no_plugins")

EXAMPLES = Path(__file__).parents[2] / "examples"
ATTENTION = f"{EXAMPLES / 'my_attention.py'}:CosineAttention"
MODEL = f"{EXAMPLES / 'my_model.py'}:MaxEmbedding"
METRIC = f"{EXAMPLES / 'my_metric.py'}:LengthError"
TASK = f"{EXAMPLES / 'my_task.py'}:SpelledNumbers"

SHORT = ["--steps", "3", "--threads", "1"]
TINY = [
    *("--set", "model.embedding_dim=8", "--set", "model.hidden_dim=16"),
    *("--set", "task.beam_size=1", "--set", "task.validation_fraction=0.01"),
    *("--set", "task.test_fraction=0.01"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with labelled texts and with pairs."""
    monkeypatch.chdir(tmp_path)
    words = [first + second for first in "abcdef" for second in ("ox", "en", "ist")]
    labelled = [f"{'good' if 'o' in word else 'bad'}\ta {word} film\n" for word in words * 3]
    pairs = [f"{word} {number}\t{f'{word} ' * number}.\n" for word in words for number in range(5)]
    (tmp_path / "labelled.tsv").write_text("".join(labelled))
    (tmp_path / "pairs.tsv").write_text("".join(pairs))
    return tmp_path


def test_mechanism_is_costed_without_a_cost_function(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("compare", "predict"):
        monkeypatch.setattr(f"regard.costs.{module}.LENGTHS", (32, 64))
    monkeypatch.setattr("regard.costs.compare.LAYER_NAMES", ("lstm", "self-attention"))
    sizes = ["--length", "32", "--heads", "2", "--head-dim", "8", "--no-calibrate", "--json"]
    monkeypatch.setattr("regard.costs.compare.Comparison.crossovers", lambda *_: ())
    assert exit_code(["cost", *sizes, "--plugin", ATTENTION, "--only", "CosineAttention"]) == 0
    [row] = json.loads(capsys.readouterr().out)["mechanisms"]
    assert row["name"] == "CosineAttention"
    # At least scores and weighted sum of 32 × 32 pairs, in 2 heads of width 8.
    assert row["flops"] > 2 * 2 * 2 * 32 * 32 * 8
    assert row["peak_bytes"] > 0


def test_mechanism_is_trained(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--set", "model.model_dim=16", "--set", "model.num_heads=2"]
    sizes += ["--set", "model.num_layers=1", "--set", "model.mechanism=CosineAttention"]
    train = ["train", "classify", "--train-file", "labelled.tsv", *SHORT, *sizes, "--out", "run"]
    split = ["--set", "task.validation_fraction=0.3"]
    assert exit_code([*train, *split, "--plugin", ATTENTION]) == 0
    REGISTRY.plugins.clear()
    assert exit_code(["predict", "run", "a film"]) == 2
    error = capsys.readouterr().err
    assert "CosineAttention" in error
    assert "my_attention.py" in error
    assert exit_code(["predict", "run", "a film", "--plugin", ATTENTION]) == 0
    assert capsys.readouterr().out.strip() in {"good", "bad"}


def test_model_is_trained_and_studied(capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--recipe", "classify", "--train-file", "labelled.tsv", "--plugin", MODEL, "--steps"]
    splits = ["--set", "task.validation_fraction=0.3", "--set", "task.test_fraction=0.3"]
    chosen = ["--set", "model.name=MaxEmbedding", "--set", "model.model_dim=16"]
    assert exit_code(["train", "classify", *data, "3", *splits, *chosen, "--out", "run"]) == 0
    assert "validation  accuracy" in capsys.readouterr().out
    assert exit_code(["predict", "run", "a film", "--plugin", MODEL]) == 0
    study = ["--sweep", "model.name=MaxEmbedding,bag_of_words", "--seeds", "2", "--workers", "1"]
    matched = ["--match", "parameters", "--out", "study", "--json"]
    assert exit_code(["study", *data, "3", *splits, *study, *matched]) == 0
    capsys.readouterr()
    assert exit_code(["report", "study", "--json", "--plugin", MODEL]) == 0
    variants = json.loads(capsys.readouterr().out)["variants"]
    assert [variant["name"] for variant in variants] == ["MaxEmbedding", "bag_of_words"]
    first, second = (variant["parameters"] for variant in variants)
    assert abs(first - second) / second < 0.05


def test_metric_is_compared_in_a_study(capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--recipe", "translate-characters", "--train-file", "pairs.tsv", *TINY]
    splits = ["--set", "task.validation_fraction=0.2", "--set", "task.test_fraction=0.2"]
    study = ["--sweep", "cell=lstm,gru", "--seeds", "2", "--steps", "2", "--workers", "1"]
    extra = ["--plugin", METRIC, "--set", "task.metrics=['length_error']", "--out", "study"]
    assert exit_code(["study", *data, *splits, *study, *extra]) == 0
    record = regard.report("study", plugin=METRIC)
    assert isinstance(record, StudyRecord)
    found = {metric.name: metric for metric in record.metrics}
    assert found["length_error"].unit == "words"
    assert found["length_error"].lower_is_better
    for variant in record.variants:
        score = variant.scores["length_error"]
        assert None not in (score.item_low, score.mean, score.item_high)
    assert "length_error" in Path("study/page.html").read_text(encoding="utf-8")


def test_task_is_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    train = ["train", "SpelledNumbers", "--plugin", TASK, "--recipe", "translate-characters"]
    assert exit_code([*train, *SHORT, *TINY, "--out", "run"]) == 0
    assert "exact_match" in capsys.readouterr().out
    assert exit_code(["predict", "run", "twenty-one", "--plugin", TASK]) == 0
    assert set(capsys.readouterr().out.strip()) <= set("0123456789")
    assert exit_code(["train", "SpelledNumbers", "--plugin", TASK]) == 2
    assert "--recipe" in capsys.readouterr().err


def tones() -> Iterator[Row]:
    """Frames of two features, one of which grows with the target."""
    numbers = np.random.default_rng(0)
    for line in range(1, 121):
        length, level = int(numbers.integers(3, 9)), float(numbers.normal())
        frames = numbers.normal(size=(length, 2)) * 0.1 + [level, 0.0]
        yield Row(input=frames.astype(np.float32), target=10 * level, line=line)


class LevelPreprocessor(ItemPreprocessor):
    """Standardised frames with standardised numbers."""

    target_class = Standardizer
    unit = "sequences"

    @classmethod
    def fit_inputs(cls, options: Any, inputs: Iterator[Any]) -> Standardizer:
        del options
        return Standardizer.fit(inputs)


class LevelOptions(TaskOptions):
    """Options of `Level`."""

    max_length: int = 100


class Level(Task):
    """A task of a kind that is not built in: frames in, a number out, and a loss of its own."""

    options_class = LevelOptions
    preprocessor_class = LevelPreprocessor
    input_kind = "frames"
    target_kind: ClassVar[TargetKind] = "value"
    metrics = (MAE(), RMSE())
    datasets: ClassVar[dict[str, Any]] = {
        "tones": lambda _: GeneratedRows(path=Path("tones"), generate=tones)
    }

    def loss(self, model: Any, batch: Batch) -> Loss:
        values = model.classify(batch.input).logits[:, 0]
        total = F.smooth_l1_loss(values, batch.target.values, reduction="sum")
        return Loss(total, batch.num_predictions)

    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        predictions = self.predict(model, split.inputs, self.dataset.preprocessor, self.decode)
        return EvalResult(self.scores(predictions, split.references, self.options), predictions)

    @classmethod
    def predict(
        cls, model: Any, inputs: Sequence[Any], preprocessor: Any, decode: Decode
    ) -> list[float]:
        del decode
        examples, values = preprocessor.encode_inputs(inputs), np.zeros(len(inputs))
        batches = evaluation_batches(examples)
        with torch.inference_mode():
            for index in range(len(batches)):
                rows = batches.indices(index)
                values[rows] = model.classify(examples.collate_inputs(rows)).logits[:, 0]
        found: list[float] = preprocessor.target.decode(values).tolist()
        return found


@pytest.mark.parametrize("model", ["bilstm", "text_encoder"])
def test_task_of_a_new_kind_and_real_valued_input(model: str, tmp_path: Path) -> None:
    """One class, and models that take real-valued frames without a change in `models/`."""
    sizes = {"model.name": model, "model.model_dim": 16, "task.validation_fraction": 0.2}
    run = regard.train(
        "Level",
        plugin=Level,
        recipe="regression",
        set=sizes,
        steps=60,
        threads=1,
        out=tmp_path / "run",
    )
    assert run is not None
    mean_error = float(np.mean(np.abs([row.target for row in tones()])))
    assert run.record["scores"]["validation"]["mae"] < 0.5 * mean_error
