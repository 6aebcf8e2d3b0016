"""Plan a training run: predicted time, memory, FLOPs and tokens on this machine, before it starts.

A few training steps on real batches, with a learning rate of 0, are traced, and their time predicted from
the machine's calibration (`regard.costs`); evaluations likewise. `alternatives` are other models and
mechanisms for the same task, `largest_fitting` finds the largest model within limits, and `dummy_task`
is a task with dummy data, to plan without data.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from regard.core.errors import RegardError
from regard.costs.calibration import Calibration
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit
from regard.data.token_store import TokenStore
from regard.data.tokenizers.vocabulary import FIRST_TOKEN, Vocabulary
from regard.data.tokenizers.word_level import WordVocabulary
from regard.mechanisms.compatibility import compatible_mechanisms
from regard.models import model_class
from regard.models.generation.search import decode
from regard.models.seq2seq.recurrent import NO_ATTENTION, SCORES
from regard.runs.profile import (
    NOT_EVALUATED,
    EvaluationEstimate,
    StepEstimate,
    StepProfiler,
    estimate_evaluation,
)
from regard.runs.spec import RunSpec
from regard.tasks import task_class
from regard.tasks.seq2seq.corpus import PairVocabularies, Seq2SeqCorpus, Seq2SeqOptions
from regard.tasks.seq2seq.task import Seq2SeqTask
from regard.tasks.task import Task
from regard.training.options import TrainingOptions

SLOTS = ("encoder", "decoder", "cross")
# Options of the mechanism that an alternative replaces.
MECHANISM_OPTIONS = {
    *("mechanism", "mechanism_options"),
    *(f"{slot}_{what}" for slot in SLOTS for what in ("mechanism", "options")),
}
HEADS = 4
# Heads have an even width, for rotary positions.
MIN_HEAD_DIM = 2


def alternatives(spec: RunSpec) -> Iterator[RunSpec]:
    """The spec with every compatible mechanism, for its model and for the other one in the same width.

    A decoder-only model has no other model as alternative.
    """
    models = {"recurrent": [NO_ATTENTION, *SCORES], "transformer": transformer_mechanisms()}
    if spec.model == "decoder_only":
        causal = compatible_mechanisms(role="self", causal=True, masks=frozenset({"causal"}))
        models = {"decoder_only": causal}
    for model, others in models.items():
        options = spec.model_options if model == spec.model else _same_width(spec)
        kept = {name: value for name, value in options.items() if name not in MECHANISM_OPTIONS}
        for mechanism in others:
            yield replace(spec, model=model, model_options={**kept, "mechanism": mechanism})


def transformer_mechanisms() -> list[str]:
    """Mechanisms for all three slots of a Transformer: encoder, decoder and cross-attention."""
    encoder = compatible_mechanisms(role="self", causal=False, masks=frozenset({"padding"}))
    decoder = compatible_mechanisms(role="self", causal=True, masks=frozenset({"causal"}))
    cross = compatible_mechanisms(role="cross", causal=False, masks=frozenset({"padding"}))
    return [name for name in encoder if name in decoder and name in cross]


def model_option(spec: RunSpec, name: str) -> Any:
    """An option of the spec's model, or its default."""
    default = inspect.signature(model_class(spec.model)).parameters[name].default
    return spec.model_options.get(name, default)


def _same_width(spec: RunSpec) -> dict[str, Any]:
    """Options of the other model in the width of this one; its depth is the default."""
    dropout = {"dropout": model_option(spec, "dropout")}
    if spec.model == "transformer":
        width = model_option(spec, "model_dim")
        return {"embedding_dim": width, "hidden_dim": width, "attention_style": "luong", **dropout}
    unit = HEADS * MIN_HEAD_DIM
    width = max(1, round(model_option(spec, "hidden_dim") / unit)) * unit
    tie = "all" if spec.task_options.shared_vocabulary else "target"
    return {"model_dim": width, "num_heads": HEADS, "tie": tie, **dropout}


# Resident memory (VmRSS) of Python with torch, Fabric and the tokenizers.
PROCESS_BYTES = 350e6
# Writing a checkpoint, measured on a virtual disk.
CHECKPOINT_BYTES_PER_SECOND = 350e6
# Serialisation holds every tensor as bytes, and all of them concatenated.
CHECKPOINT_COPIES = 2
# Batches to profile, and the FLOPs up to which a step is run on the full batch: a few seconds.
SAMPLES, MAX_FLOPS = 6, 3e11
# The same for alternatives, of which there are many.
ALTERNATIVE_SAMPLES, ALTERNATIVE_MAX_FLOPS = 1, 1e11


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes at the peak of a run. `training_state`: parameters, optimizer moments, averages."""

    process: float
    data: float
    training_state: float
    step: float
    checkpoint: float
    evaluation: float

    @property
    def peak(self) -> float:
        """Steps, checkpoints and evaluations do not overlap."""
        transient = max(self.step, self.checkpoint, self.evaluation)
        return self.process + self.data + self.training_state + transient


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Predictions for one run."""

    model: str
    mechanism: str
    options: dict[str, Any]
    parameters: int
    steps: int
    seconds_per_step: float
    tokens_per_step: float
    flops_per_step: float
    evaluations: int
    evaluation: EvaluationEstimate
    checkpoint_seconds: float
    memory: Memory

    @property
    def training_seconds(self) -> float:
        """Time of all training steps."""
        return self.steps * self.seconds_per_step

    @property
    def evaluation_seconds(self) -> float:
        """Time of all evaluations during training."""
        return self.evaluations * self.evaluation.each_seconds

    @property
    def total_seconds(self) -> float:
        """Time from the first step to the final evaluation."""
        other = self.evaluation_seconds + self.checkpoint_seconds + self.evaluation.final_seconds
        return self.training_seconds + other

    def as_json(self) -> dict[str, Any]:
        """Plain values, with totals."""
        return {
            "model": self.model,
            "mechanism": self.mechanism,
            "options": self.options,
            "parameters": self.parameters,
            "steps": self.steps,
            "seconds_per_step": self.seconds_per_step,
            "tokens_per_step": self.tokens_per_step,
            "flops_per_step": self.flops_per_step,
            "tokens": round(self.steps * self.tokens_per_step),
            "flops": self.steps * self.flops_per_step,
            "seconds": {
                "training": self.training_seconds,
                "evaluations": self.evaluation_seconds,
                "checkpoints": self.checkpoint_seconds,
                "final_evaluation": self.evaluation.final_seconds,
                "total": self.total_seconds,
            },
            "bytes": {**vars(self.memory), "peak": self.memory.peak},
        }


def plan_run(
    spec: RunSpec, task: Task, calibration: Calibration, *, evaluated: bool = True
) -> Plan:
    """Plan a spec on its task. `evaluated=False`: there is no data to evaluate on."""
    profiler = StepProfiler(spec, task)
    step = profiler.estimate_step(calibration, samples=SAMPLES, max_flops=MAX_FLOPS)
    evaluation = NOT_EVALUATED
    if evaluated:
        evaluation = estimate_evaluation(
            profiler.model, task, calibration, beam_size=spec.task_options.beam_size
        )
    return _plan(spec, profiler, step, evaluation)


def plan_alternative(known: Plan, spec: RunSpec, task: Task, calibration: Calibration) -> Plan:
    """A quicker plan of another model on the same task.

    The time of its evaluations is scaled by the ratio of the step times.
    """
    profiler = StepProfiler(spec, task)
    step = profiler.estimate_step(
        calibration, samples=ALTERNATIVE_SAMPLES, max_flops=ALTERNATIVE_MAX_FLOPS
    )
    ratio = step.estimate.seconds / known.seconds_per_step
    return _plan(spec, profiler, step, known.evaluation.times(ratio))


def _plan(
    spec: RunSpec, profiler: StepProfiler, step: StepEstimate, evaluation: EvaluationEstimate
) -> Plan:
    checkpoint = profiler.training_state_bytes / CHECKPOINT_BYTES_PER_SECOND
    steps = steps_within(spec.training, step, evaluation, checkpoint=checkpoint)
    evaluations = -(-steps // spec.training.evaluate_every)
    training = steps * step.estimate.seconds
    # One per evaluation, one at the end, and the periodic ones.
    periodic = training / max(spec.training.checkpoint_seconds, step.estimate.seconds)
    checkpoints = evaluations + 1 + int(periodic)
    store = profiler.task.corpus.train
    data = (store.source_tokens, store.source_offsets, store.target_tokens, store.target_offsets)
    return Plan(
        model=spec.model,
        mechanism=mechanism_name(spec),
        options=spec.model_options,
        parameters=profiler.parameters,
        steps=steps,
        seconds_per_step=step.estimate.seconds,
        tokens_per_step=step.tokens,
        flops_per_step=step.estimate.flops,
        evaluations=evaluations,
        evaluation=evaluation,
        checkpoint_seconds=checkpoints * checkpoint,
        memory=Memory(
            process=PROCESS_BYTES,
            data=float(sum(array.nbytes for array in data)),
            training_state=float(profiler.training_state_bytes),
            step=step.estimate.peak_bytes,
            checkpoint=float(CHECKPOINT_COPIES * profiler.training_state_bytes),
            # A copy of the current parameters while the averaged ones are evaluated.
            evaluation=profiler.parameter_bytes + evaluation.peak_bytes,
        ),
    )


def steps_within(
    options: TrainingOptions,
    step: StepEstimate,
    evaluation: EvaluationEstimate,
    *,
    checkpoint: float,
) -> int:
    """Number of steps until the first budget is exhausted; seconds include evaluations and checkpoints."""
    overhead = (evaluation.each_seconds + checkpoint) / options.evaluate_every
    per_step = {
        "steps": 1.0,
        "tokens": step.tokens,
        "seconds": step.estimate.seconds + overhead,
        "flops": step.declared_flops,
    }
    limits = options.budget._asdict()
    return min(
        max(1, math.ceil(limit / per_step[name]))
        for name, limit in limits.items()
        if limit is not None
    )


def mechanism_name(spec: RunSpec) -> str:
    """The mechanism's name; if the slots differ, each with its own: "encoder elu, …"."""
    own = {slot: spec.model_options.get(f"{slot}_mechanism") for slot in SLOTS}
    default = str(model_option(spec, "mechanism") or "none")
    if not any(own.values()):
        return default
    return ", ".join(f"{slot} {name or default}" for slot, name in own.items())


# model → its width options
WIDTHS = {
    "transformer": ("model_dim", "feed_forward_dim"),
    "recurrent": ("embedding_dim", "hidden_dim"),
}
# Widths grow by a factor 2^(1/4) from one size to the next, from 1/16 to 16 times the spec's own.
SIZES_PER_DOUBLING = 4
MIN_SIZE, MAX_SIZE = -4 * SIZES_PER_DOUBLING, 4 * SIZES_PER_DOUBLING

Planned = TypeVar("Planned")


def scale_widths(spec: RunSpec, size: int) -> RunSpec:
    """The spec with its widths scaled by 2^(size/4), rounded to multiples that its heads need."""
    factor = 2 ** (size / SIZES_PER_DOUBLING)
    unit = MIN_HEAD_DIM
    if spec.model == "transformer":
        unit *= model_option(spec, "num_heads")
    unit = math.lcm(unit, 4)
    widths = {
        name: max(1, round(factor * width / unit)) * unit
        for name in WIDTHS[spec.model]
        if (width := model_option(spec, name)) is not None
    }
    return spec if size == 0 else replace(spec, model_options={**spec.model_options, **widths})


def largest_fitting(
    plan_at: Callable[[int], Planned], fits: Callable[[Planned], bool]
) -> tuple[Planned | None, Planned | None]:
    """The plan of the largest size that fits, and of the smallest size tried that does not.

    Exponential search, then binary search.
    """
    at = plan_at(0)
    direction, best, worst = (1, at, None) if fits(at) else (-1, None, at)
    low, high = (0, None) if best is not None else (None, 0)
    step = 1
    while (high if direction == 1 else low) is None:
        size = max(MIN_SIZE, min(MAX_SIZE, direction * step))
        tried = plan_at(size)
        if fits(tried):
            low, best = size, tried
        else:
            high, worst = size, tried
        if size in (MIN_SIZE, MAX_SIZE):
            break
        step *= 2
    while low is not None and high is not None and high - low > 1:
        size = (low + high) // 2
        tried = plan_at(size)
        if fits(tried):
            low, best = size, tried
        else:
            high, worst = size, tried
    return best, worst


# Letters, digits and punctuation of a European language.
CHARACTERS = 100


def dummy_task(spec: RunSpec, *, length: int) -> Seq2SeqTask:
    """A task with one batch of random pairs whose source and target have `length` tokens each.

    Vocabulary sizes are those of the options; a character vocabulary has CHARACTERS.
    """
    options, kind = spec.task_options, task_class(spec.task)
    if not issubclass(kind, Seq2SeqTask) or not isinstance(options, Seq2SeqOptions):
        raise RegardError(
            f"--length generates text pairs, which the task '{spec.task}' does not use. Plan it with "
            "its data."
        )
    tokens = 2 * length + 3  # START once, END twice
    if length < 1 or tokens > options.batch_tokens:
        raise RegardError(
            f"--length {length}: a pair has {tokens} tokens, and a batch at most "
            f"task.batch_tokens={options.batch_tokens}. Use a length of at least 1, or larger batches."
        )
    source = _vocabulary(options.source_tokens, options.vocabulary_size)
    target = (
        source
        if options.shared_vocabulary
        else _vocabulary(options.target_tokens, options.vocabulary_size)
    )
    pairs = options.batch_tokens // tokens
    rng = np.random.default_rng(0)
    token_ids = [
        rng.integers(FIRST_TOKEN, vocabulary.size, size=(pairs, length)).tolist()
        for vocabulary in (source, target)
    ]
    empty = EvalSplit(inputs=(), references=())
    # A task needs a validation split; plans do not use it.
    one = EvalSplit(inputs=(source.tokens[0],), references=((target.tokens[0],),))
    corpus = Seq2SeqCorpus(
        vocabularies=PairVocabularies(source=source, target=target),
        train=TokenStore.build(zip(*token_ids, strict=True)),
        validation=one,
        test=empty,
        leakage={},
        errors=RowErrors(),
    )
    return kind(corpus=corpus, options=options, seed=spec.seed, decode=partial(decode, beam_size=1))


def _vocabulary(kind: str, size: int) -> Vocabulary:
    count = CHARACTERS if kind == "characters" else size
    return WordVocabulary(
        tokens=[str(number) for number in range(count - FIRST_TOKEN)], lowercase=False
    )
