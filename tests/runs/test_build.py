"""FLOPs of training from a few counted batches; a mechanism per layer; options that are added later."""

from __future__ import annotations

import random
import signal
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch
from tests.factories.toy_pronunciation import (
    MODELS,
    pronunciation,
    tiny_sections,
    toy_sections,
    write_dictionary,
)

from regard.core.batches import InputSpec
from regard.core.options import Introduced, PositiveInt
from regard.models.seq2seq.recurrent import RecurrentEncoderDecoder
from regard.runs.build import (
    COUNTED_BATCHES,
    build_spec_model,
    build_task,
    count_flops,
    flops_counter,
)
from regard.runs.folder import RunFolder
from regard.runs.plan import mechanism_name
from regard.runs.plugins import load_plugins
from regard.runs.spec import RunSpec, merge_sections, parse_settings, spec_key
from regard.runs.train import begin_run, resume_run
from regard.studies.execution.jobs import Event, Finished, Job, run_job
from regard.studies.folder import StudyFolder
from regard.studies.prepare import PreparedStudy
from regard.studies.spec import StudySpec
from regard.studies.study import run_study
from regard.training.callbacks import StepMetrics


class StopAt:
    """Interrupts a run after a step, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, info: StepMetrics) -> None:
        if info.step == self.step:
            signal.raise_signal(signal.SIGINT)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class InProcess:
    """Runs jobs one after another in this process."""

    def run(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        for job in jobs:
            run_job(job.sections, job.folder)
            yield Finished(job, 1.0)


@pytest.fixture
def varied(tmp_path: Path) -> Path:
    """Words of many lengths, in more batches than are counted, with and without padding."""
    rng = random.Random(0)
    words = {"".join(rng.choices("abcdef", k=rng.randint(2, 14))) for _ in range(600)}
    path = tmp_path / "varied.dict"
    path.write_text("".join(f"{word}  {pronunciation(word)}\n" for word in sorted(words)))
    return path


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "transformer_recurrent", "ctc"])
def test_flops_of_any_batch(kind: str, varied: Path) -> None:
    spec = RunSpec.from_sections(toy_sections(varied, kind=kind, task={"batch_tokens": 384}))
    task = build_task(spec)
    model = build_spec_model(spec, task.dataset.preprocessor).train()
    flops = flops_counter(model, task)
    assert len(task.epoch(0)) > COUNTED_BATCHES
    batches = [task.epoch(epoch)[index] for epoch in (0, 1) for index in range(5)]
    assert {getattr(batch.input, "padded", None) for batch in batches} == {True, False}
    for batch in batches:
        assert flops(batch) == pytest.approx(count_flops(model, task, batch), rel=0.001)
    if kind == "recurrent":  # slow to count again
        return
    with torch.no_grad():  # as in a resumed run
        for parameter in model.parameters():
            parameter.mul_(1.5)
    again = flops_counter(model, task)
    assert [again(batch) for batch in reversed(batches)] == [*map(flops, reversed(batches))]


def test_flops_where_attention_changes_its_form_with_the_length(tmp_path: Path) -> None:
    rng, texts = random.Random(0), tmp_path / "texts.txt"
    lines = ("".join(rng.choices("abcdef", k=rng.randint(2, 390))) for _ in range(250))
    texts.write_text("\n".join(lines))
    task_options = {"train_file": str(texts), "tokens": "characters", "max_length": 400}
    sections = {
        "task": {"name": "lm", "batch_tokens": 2100, **task_options},
        "model": {"name": "decoder_only", "model_dim": 64, "num_heads": 2, "num_layers": 1},
        "training": {"steps": 1},
    }
    task = build_task(spec := RunSpec.from_sections(sections))
    model = build_spec_model(spec, task.dataset.preprocessor).train()
    flops, epoch = flops_counter(model, task), task.epoch(1)
    for index in range(0, len(epoch), 3):
        counted = count_flops(model, task, epoch[index])
        assert flops(epoch[index]) == pytest.approx(counted, rel=0.005), epoch[index].target.shape


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_flops_of_a_resumed_run(kind: str, tmp_path: Path) -> None:
    words = write_dictionary(tmp_path / "words.dict", count=120)
    training = {"steps": 7, "evaluate_every": 4, "log_every": 1}
    spec = RunSpec.from_sections(
        tiny_sections(words, model={**MODELS[kind], "dropout": 0.1}, training=training, threads=1)
    )
    straight, stopped = RunFolder(tmp_path / "straight"), RunFolder(tmp_path / "stopped")
    assert begin_run(spec, straight)
    assert begin_run(spec, stopped, callbacks=[StopAt(5)]) is None
    assert resume_run(stopped)
    assert stopped.metrics.read_bytes() == straight.metrics.read_bytes()
    assert b'"flops"' in straight.metrics.read_bytes()


LAYERS = {"name": "transformer", "model_dim": 8, "num_heads": 2, "num_layers": 2, "tie": "target"}


def test_mechanism_of_each_layer(tmp_path: Path) -> None:
    words = write_dictionary(tmp_path / "words.dict", count=120)
    setting = parse_settings(['model.mechanism=["window","scaled_dot"]'])
    sections = merge_sections(tiny_sections(words, model=LAYERS, threads=1), setting)
    spec = RunSpec.from_sections(sections)
    assert mechanism_name(spec) == "window+scaled_dot"
    folder = RunFolder(tmp_path / "run")
    assert begin_run(spec, folder, callbacks=[StopAt(2)]) is None
    assert RunSpec.read(folder.spec, folder.read_json(folder.spec)) == spec
    assert resume_run(folder)
    swept = {"mechanism": [["window", "scaled_dot"], ["scaled_dot", "elu"]]}
    study = StudySpec.from_sections({**sections, "sweep": swept, "seeds": 1})
    place = StudyFolder(tmp_path / "study")
    record = run_study(study, place.path, executor=InProcess())
    assert [variant.name for variant in record.variants] == [
        'mechanism=["window", "scaled_dot"]',
        'mechanism=["scaled_dot", "elu"]',
    ]
    keys = [run.key for run in study.runs()]
    assert [run.key for run in PreparedStudy.read(place).study.runs()] == keys
    # A run that was stopped is resumed by its job.
    RunFolder(place.runs / keys[0]).record.unlink()
    run_study(study, place.path, executor=InProcess())
    assert sorted(path.name for path in place.runs.iterdir()) == sorted(keys)


def model_with(*default: float) -> type:
    """A model class; with a default, of a later version that has the option `jitter` too."""
    fixed: dict[str, Any] = {"embedding_dim": 4, "mechanism": "dot"}
    if not default:

        class Mine(RecurrentEncoderDecoder):
            def __init__(
                self,
                *,
                source: InputSpec | PositiveInt,
                target_vocabulary: PositiveInt,
                hidden_dim: PositiveInt = 8,
            ) -> None:
                sizes: dict[str, Any] = {"source": source, "target_vocabulary": target_vocabulary}
                super().__init__(**sizes, hidden_dim=hidden_dim, **fixed)

        return Mine

    class Later(RecurrentEncoderDecoder):
        def __init__(
            self,
            *,
            source: InputSpec | PositiveInt,
            target_vocabulary: PositiveInt,
            hidden_dim: PositiveInt = 8,
            jitter: Annotated[float, Introduced(0.0)] = default[0],
        ) -> None:
            sizes: dict[str, Any] = {"source": source, "target_vocabulary": target_vocabulary}
            super().__init__(**sizes, hidden_dim=hidden_dim, **fixed)
            self.jitter = jitter

    Later.__name__ = "Mine"
    return Later


@pytest.mark.usefixtures("no_plugins")
def test_option_added_to_a_model(tmp_path: Path) -> None:
    """It changes no key and stops no run from resuming; a changed default changes the key."""
    words = write_dictionary(tmp_path / "words.dict", count=60)
    sections = tiny_sections(words, threads=1)
    sections["model"] = {"name": "Mine"}
    load_plugins([model_with()])
    before = RunSpec.from_sections(sections).as_sections()
    key = spec_key(RunSpec.from_sections(sections))
    given = {**sections, "sweep": {"hidden_dim": [4, 8]}, "seeds": 1}
    folder = StudyFolder(tmp_path / "study")
    run_study(StudySpec.from_sections(given), folder.path, executor=InProcess())
    keys = [run.key for run in StudySpec.from_sections(given).runs()]
    load_plugins([model_with(0.0)])
    after = RunSpec.from_sections(sections)
    assert after.model_options["jitter"] == 0.0
    assert spec_key(after) == key
    study = StudySpec.from_sections(given)
    assert [run.key for run in study.runs()] == keys
    first, second = (RunFolder(folder.runs / key) for key in keys)
    first.record.unlink()
    run_study(study, folder.path, executor=InProcess())
    assert first.record.is_file()
    load_plugins([model_with(0.5)])
    assert spec_key(RunSpec.from_sections(sections)) != key
    assert spec_key(RunSpec.from_sections(before, is_record=True)) == key
    second.record.unlink()
    assert resume_run(second)
    assert [run.key for run in PreparedStudy.read(folder).study.runs()] == keys


def test_counting_flops_changes_no_buffer(words: Path) -> None:
    spec = RunSpec.from_sections(tiny_sections(words))
    task = build_task(spec)
    model = build_spec_model(spec, task.dataset.preprocessor)
    model.register_buffer("calls", torch.zeros(1))
    loss = task.loss

    def counted_loss(model: Any, batch: Any) -> Any:
        model.calls += 1
        float(model.calls.sum())  # as a model that reads values
        return loss(model, batch)

    task.loss = counted_loss  # type: ignore[method-assign]
    assert count_flops(model, task, task.epoch(0)[0]) > 0
    assert float(model.calls) == 0  # type: ignore[arg-type]
