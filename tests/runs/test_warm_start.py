"""Pre-training inside a run, warm start from a run, and what is refused."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.core.errors import RegardError
from regard.data.readers.text_file import RowErrors
from regard.runs.build import build_task
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.spec import RunSpec, merge_sections, parse_settings
from regard.runs.train import begin_run, resume_run
from regard.tasks.language_model import qa_pairs
from regard.training.callbacks import Evaluation, Outcome, StepMetrics, TrainingStart
from regard.training.checkpoint import read_safetensors

PLACES = ("Rome", "Oslo", "Lima", "Bern")
NAMES = [
    f"{first} {last}" for first in ("Ann", "Bo", "Cy", "Di", "Ed") for last in ("Ax", "By", "Co")
]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    facts = {name: PLACES[place % 4] for place, name in enumerate(NAMES)}
    text = tmp_path / "facts.txt"
    text.write_text(
        "".join(f"{name}. {name} was born in {place}.\n" for name, place in facts.items())
    )
    rows = [f"Where was {name} born?\t{place}\n" for name, place in facts.items()]
    (tmp_path / "train.tsv").write_text("".join(rows[:12]))
    (tmp_path / "dev.tsv").write_text("".join(rows[12:]))
    return {
        "text": str(text),
        "pairs": str(tmp_path / "train.tsv"),
        "validation": str(tmp_path / "dev.tsv"),
    }


def sections(files: dict[str, str], **changes: Any) -> dict[str, Any]:
    training = {"learning_rate": 3e-3, "warmup_steps": 2, "evaluate_every": 10}
    return merge_sections(
        {
            "task": {
                "name": "closed_book_qa",
                "train_file": files["pairs"],
                "validation_file": files["validation"],
                "source_tokens": "words",
                "target_tokens": "words",
            },
            "model": {"name": "decoder_only", "model_dim": 16, "num_heads": 2, "num_layers": 1},
            "pretraining": {
                "task": {
                    "name": "lm",
                    "train_file": files["text"],
                    "tokens": "words",
                    "validation_fraction": 0.0,
                    "qa_fraction": 0.3,
                },
                "training": {"steps": 12, **training, "keep": "last"},
            },
            "training": {"steps": 6, **training},
            "threads": 1,
        },
        changes,
    )


def test_pretraining_then_fine_tuning(files: dict[str, str], tmp_path: Path) -> None:
    logged: list[str] = []
    folder = RunFolder(tmp_path / "run")
    spec = RunSpec.from_sections(sections(files))
    record = begin_run(spec, folder, log=logged.append)
    assert record is not None
    assert set(record["scores"]["validation"]) == {"exact_match", "loss"}
    majority = record["baselines"]["validation"]["majority baseline 'Rome'"]
    assert majority["scores"] == {"exact_match": pytest.approx(100 / 3)}
    assert folder.pretraining.record.is_file()
    assert folder.read_json(folder.preprocessor) == folder.pretraining.read_json(
        folder.pretraining.preprocessor
    )
    assert any("tensors initialised from" in line for line in logged)
    assert RunSpec.from_sections(folder.read_json(folder.spec)) == spec


def test_parameters_are_initialised_from_the_run(files: dict[str, str], tmp_path: Path) -> None:
    """With a learning rate near zero, the final parameters are the initial ones."""
    whole = RunFolder(tmp_path / "whole")
    begin_run(RunSpec.from_sections(sections(files)), whole)
    still = merge_sections(
        sections(files, training={"learning_rate": 1e-12}),
        {"pretraining": "none", "init_from": str(whole.pretraining.path)},
    )
    after = RunFolder(tmp_path / "after")
    assert begin_run(RunSpec.from_sections(still), after) is not None
    before, _ = read_safetensors(whole.pretraining.model, way_out="")
    now, _ = read_safetensors(after.model, way_out="")
    assert before.keys() == now.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(now[name], tensor, rtol=0, atol=1e-9)


class StopAt:
    """Interrupts a run as Ctrl-C does, at a step of its training or pre-training."""

    def __init__(self, step: int) -> None:
        self.step, self.seen = step, 0

    def on_train_begin(self, info: TrainingStart) -> None: ...

    def on_evaluate(self, info: Evaluation) -> None: ...

    def on_save(self, path: Path) -> None: ...

    def on_train_end(self, outcome: Outcome | None) -> None: ...

    def on_step_end(self, info: StepMetrics) -> None:
        self.seen += 1
        if self.seen == self.step:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("step", [5, 15])
def test_interrupted_run_is_bit_reproducible(
    step: int, files: dict[str, str], tmp_path: Path
) -> None:
    spec = RunSpec.from_sections(sections(files))
    straight, stopped = RunFolder(tmp_path / "straight"), RunFolder(tmp_path / "stopped")
    begin_run(spec, straight)
    assert begin_run(spec, stopped, callbacks=[StopAt(step)]) is None
    assert resume_run(stopped) is not None
    assert stopped.model.read_bytes() == straight.model.read_bytes()
    assert stopped.metrics.read_bytes() == straight.metrics.read_bytes()


def test_evaluation_inputs_are_excluded_from_pretraining(files: dict[str, str]) -> None:
    """With hash splits, validation and test questions are not mixed into pre-training."""
    own = sections(
        files, task={"validation_file": None, "validation_fraction": 0.3, "test_fraction": 0.2}
    )
    spec = RunSpec.from_sections(own)
    assert spec.pretraining is not None
    assert spec.pretraining.task_options.qa_file == files["pairs"]
    assert spec.pretraining.task_options.qa_validation_fraction == 0.3
    assert spec.pretraining.task_options.qa_test_fraction == 0.2
    task = build_task(spec)
    mixed: Any = build_task(spec.pretraining).dataset
    learned = {
        mixed.preprocessor.input.decode(mixed.extra.inputs[row].tolist())
        for row in range(len(mixed.extra))
    }
    assert learned
    assert learned.isdisjoint({*task.dataset.validation.inputs, *task.dataset.test.inputs})


@pytest.mark.parametrize(
    "changes",
    [
        {"lowercase": "both"},
        {"source_column": "question", "target_column": "answer", "header": True},
    ],
)
def test_pretraining_inherits_file_options(
    changes: dict[str, Any], files: dict[str, str], tmp_path: Path
) -> None:
    pairs = tmp_path / "all.tsv"
    rows = [(f"Where was Name Number {n} born ?", PLACES[n % 4]) for n in range(60)]
    if "header" in changes:
        lines = ["answer\tquestion", *(f"{answer}\t{question}" for question, answer in rows)]
    else:
        lines = ["\t".join(row) for row in rows]
    pairs.write_text("\n".join(lines) + "\n")
    own = {
        "train_file": str(pairs),
        "validation_file": None,
        "validation_fraction": 0.3,
        "test_fraction": 0.2,
        **changes,
    }
    for further in ({}, {"pretraining": {"task": {"qa_file": str(pairs)}}}):
        spec = RunSpec.from_sections(sections(files, task=own, **further))
        assert spec.pretraining is not None
        task: Any = build_task(spec).dataset
        mixed: Any = build_task(spec.pretraining).dataset
        held_out = {source.lower() for source in (*task.validation.inputs, *task.test.inputs)}
        assert len(mixed.extra) + len(held_out) == 60
        options = spec.pretraining.task_options
        learned = {question.lower() for question, _ in qa_pairs(options, RowErrors())}
        assert learned.isdisjoint(held_out)


def test_leakage_from_initial_runs_is_logged(files: dict[str, str], tmp_path: Path) -> None:
    whole = RunFolder(tmp_path / "whole")
    begin_run(RunSpec.from_sections(sections(files)), whole)
    logged: list[str] = []
    # Validation questions that occurred in training of the initial run.
    swapped = sections(
        files, task={"train_file": files["validation"], "validation_file": files["pairs"]}
    )
    again = merge_sections(swapped, {"pretraining": "none", "init_from": str(whole.path)})
    record = begin_run(
        RunSpec.from_sections(again), RunFolder(tmp_path / "again"), log=logged.append
    )
    assert record is not None
    assert record["pretraining_leakage"] == {"validation": 12, "test": 0}
    assert any(line.startswith("12 validation inputs") for line in logged)


def test_pretraining_of_another_run_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    begin_run(RunSpec.from_sections(sections(files)), folder)
    for path in folder.path.iterdir():
        if path.is_file():
            path.unlink()
    other = sections(files, pretraining={"training": {"steps": 3}})
    with pytest.raises(RegardError, match="pre-training of another run"):
        begin_run(RunSpec.from_sections(other), folder)
    assert begin_run(RunSpec.from_sections(sections(files)), folder) is not None


def test_fine_tuning_error_is_found_before_pretraining(
    files: dict[str, str], tmp_path: Path
) -> None:
    spec = RunSpec.from_sections(sections(files, task={"validation_file": "nowhere.tsv"}))
    with pytest.raises(RegardError, match=r"There is no file 'nowhere\.tsv'"):
        begin_run(spec, RunFolder(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_settings_of_pretraining() -> None:
    assert parse_settings(["pretraining.training.steps=7", "pretraining.task.films=9"]) == {
        "pretraining": {"training": {"steps": 7}, "task": {"films": 9}}
    }
    assert parse_settings(["pretraining=none"]) == {"pretraining": "none"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pretraining": {"model": {}}}, "Unknown section 'pretraining.model'"),
        ({"pretraining": {"task": {"name": "lmm"}}}, "In pretraining: Unknown task 'lmm'"),
        ({"pretraining": {"task": {"spam": 1}}}, "In pretraining: Unknown option 'task.spam'"),
        ({"init_from": "runs/lm-1"}, "init_from='runs/lm-1'"),
        (
            {"init_from": 3, "pretraining": "none"},
            "init_from=3",
        ),
        (
            {"model": {"name": "text_encoder"}},
            "text_encoder",
        ),
        ({"task": {"shared_vocabulary": False}, "pretraining": "none"}, None),
    ],
)
def test_invalid_specs(
    files: dict[str, str], changes: dict[str, Any], message: str | None, tmp_path: Path
) -> None:
    def start_run() -> None:
        begin_run(RunSpec.from_sections(sections(files, **changes)), RunFolder(tmp_path / "run"))

    with pytest.raises(RegardError) as refusal:
        start_run()
    assert (message or "task.shared_vocabulary=true") in str(refusal.value)


def test_other_width_cannot_be_initialised(files: dict[str, str], tmp_path: Path) -> None:
    whole = RunFolder(tmp_path / "whole")
    begin_run(RunSpec.from_sections(sections(files)), whole)
    start = {"pretraining": "none", "init_from": str(whole.pretraining.path)}
    wider = merge_sections(sections(files), {**start, "model": {"model_dim": 32}})
    with pytest.raises(RegardError, match=r"has shape \(\d+, 16\) there and \(\d+, 32\) here"):
        begin_run(RunSpec.from_sections(wider), RunFolder(tmp_path / "wider"))
    assert not (tmp_path / "wider").exists()
    nowhere = merge_sections(sections(files), {"pretraining": "none", "init_from": str(tmp_path)})
    with pytest.raises(RegardError, match="is not a run: it has no"):
        begin_run(RunSpec.from_sections(nowhere), RunFolder(tmp_path / "other"))


def test_pretrained_language_model_generates(files: dict[str, str], tmp_path: Path) -> None:
    whole = RunFolder(tmp_path / "whole")
    begin_run(RunSpec.from_sections(sections(files)), whole)
    reader, answerer = load(whole.pretraining.path), load(whole.path)
    pieces = list(reader.generate("Ann Ax", max_tokens=5, seed=3))
    assert "".join(pieces) == "".join(reader.generate("Ann Ax", max_tokens=5, seed=3))
    with pytest.raises(RegardError, match="not a language model"):
        next(answerer.generate("Ann"))
    assert len(answerer.predict(["Where was Ann Ax born?"])) == 1
    scores = reader.score(files["text"])
    assert set(scores) == {"loss", "perplexity"}  # of words
    with pytest.raises(RegardError, match="columns=2"):
        reader.score(files["text"], columns=2)


def test_other_target_tokens_cannot_be_initialised(files: dict[str, str], tmp_path: Path) -> None:
    data = {"train_file": files["pairs"], "validation_file": files["validation"]}
    task = {"name": "pronounce", "format": "tsv", **data}
    model = {"name": "transformer", "model_dim": 16, "num_heads": 2, "tie": "none"}
    training = {"steps": 1, "warmup_steps": 1}
    words = {"task": task, "model": model, "training": training, "threads": 1}
    before = RunFolder(tmp_path / "before")
    spec = RunSpec.from_sections(merge_sections(words, {"task": {"target_tokens": "characters"}}))
    assert begin_run(spec, before) is not None
    again = RunSpec.from_sections({**words, "init_from": str(before.path)})
    with pytest.raises(RegardError, match=r"target_tokens=words.*is of characters"):
        begin_run(again, RunFolder(tmp_path / "again"))
