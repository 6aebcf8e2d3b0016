"""Plan a training run: predicted time, memory, FLOPs and tokens on this machine, before it starts.

A few training steps on real batches, with a learning rate of 0, are traced, and their time predicted from
the machine's calibration (`regard.costs`); evaluations likewise. `alternatives` are other models and
mechanisms for the same task, `largest_fitting` finds the largest model within limits, and `dummy_task`
is a task with dummy data, to plan without data.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_iter

from regard.core.batches import FrameInput, Input, TokenInput
from regard.core.errors import RegardError
from regard.core.protocols import is_autoregressive
from regard.core.traits import Slot, traits_of
from regard.costs.calibration import Calibration
from regard.data.dataset import Dataset
from regard.data.preprocessor import pair_examples
from regard.data.splits import EvalSplit
from regard.data.tokenizers.vocabulary import FIRST_TOKEN, Vocabulary
from regard.data.tokenizers.word_level import WordVocabulary
from regard.mechanisms.compatibility import compatible_mechanisms
from regard.models import model_class
from regard.models.generation.search import decode
from regard.runs.build import build_spec_model
from regard.runs.profile import (
    NOT_EVALUATED,
    EvaluationEstimate,
    StepEstimate,
    StepProfiler,
    estimate_evaluation,
    estimate_run,
)
from regard.runs.spec import RunSpec, is_compatible
from regard.tasks import task_class
from regard.tasks.sequence import SequenceTask
from regard.tasks.task import Task
from regard.training.options import TrainingOptions


def alternatives(spec: RunSpec) -> Iterator[RunSpec]:
    """The spec with every compatible mechanism, in its model and in the alternatives of the same width."""
    yield from _with_mechanisms(spec)
    for other in traits_of(model_class(spec.model)).alternatives:
        if not is_compatible(spec.task, other.model):
            continue
        options = {name: model_option(spec, source) for name, source in other.options.items()}
        shared = getattr(spec.task_options, "shared_vocabulary", True)
        untied = {} if shared else traits_of(model_class(other.model)).untied
        given = {**options, **other.fixed, **untied}
        changed = replace(spec, model=other.model, model_options=given)
        for name in traits_of(model_class(other.model)).sizes:
            if name in options:
                unit = size_unit(changed, name)
                changed = with_size(changed, name, max(1, round(options[name] / unit)) * unit)
        yield from _with_mechanisms(changed)


def _with_mechanisms(spec: RunSpec) -> Iterator[RunSpec]:
    """The spec with every mechanism that all attention slots of its model can use."""
    slots = traits_of(model_class(spec.model)).slots
    if not slots:
        yield spec
        return
    own = {option for slot in slots for option in _slot_options(slot)}
    kept = {name: value for name, value in spec.model_options.items() if name not in own}
    common = list(slot_mechanisms(slots[0]))
    for slot in slots[1:]:
        usable = slot_mechanisms(slot)
        common = [name for name in common if name in usable]
    shared = slots[0].fallback or slots[0].option
    for mechanism in common:
        yield replace(spec, model_options={**kept, shared: mechanism})


def _slot_options(slot: Slot) -> tuple[str, ...]:
    """The model options that choose the mechanism of a slot."""
    return (slot.option, slot.fallback or slot.option, f"{slot.name}_options", "mechanism_options")


def slot_mechanisms(slot: Slot) -> Sequence[str]:
    """The mechanisms that can be used in a slot."""
    if slot.mechanisms is not None:
        return slot.mechanisms
    return compatible_mechanisms(role=slot.role, causal=slot.causal, masks=slot.masks)


def model_option(spec: RunSpec, name: str) -> Any:
    """An option of the spec's model, or its default."""
    default = inspect.signature(model_class(spec.model)).parameters[name].default
    return spec.model_options.get(name, default)


def size_unit(spec: RunSpec, name: str) -> int:
    """What a size of the spec's model must be a multiple of."""
    size = traits_of(model_class(spec.model)).sizes[name]
    return size.unit * (1 if size.times is None else int(model_option(spec, size.times)))


def with_size(spec: RunSpec, name: str, value: int) -> RunSpec:
    """The spec with another size; sizes that follow it keep their ratio."""
    sizes, before = traits_of(model_class(spec.model)).sizes, model_option(spec, name)
    changes = {name: value}
    for follower, size in sizes.items():
        if size.follows == name:
            own = model_option(spec, follower)
            ratio = size.ratio if own is None or not before else own / before
            changes[follower] = max(1, round(ratio * value))
    return replace(spec, model_options={**spec.model_options, **changes})


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
    pretraining: Plan | None = None

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
        """Time from the first step to the final evaluation, pre-training included."""
        other = self.evaluation_seconds + self.checkpoint_seconds + self.evaluation.final_seconds
        before = 0.0 if self.pretraining is None else self.pretraining.total_seconds
        return before + self.training_seconds + other

    @property
    def peak_bytes(self) -> float:
        """Memory at the peak of the run, its pre-training included."""
        before = 0.0 if self.pretraining is None else self.pretraining.peak_bytes
        return max(before, self.memory.peak)

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
            "pretraining": self.pretraining and self.pretraining.as_json(),
        }


def plan_run(
    spec: RunSpec,
    task: Task,
    calibration: Calibration,
    *,
    evaluated: bool = True,
    pretraining: Task | None = None,
) -> Plan:
    """Plan a spec on its task, and on the task of its pre-training.

    `evaluated=False`: there is no data to evaluate on.
    """
    profiler = StepProfiler(spec, task)
    step = profiler.estimate_step(calibration, samples=SAMPLES, max_flops=MAX_FLOPS)
    evaluation = NOT_EVALUATED
    if evaluated:
        beam_size = task.decode_kwargs(spec.task_options).get("beam_size")
        evaluation = estimate_evaluation(profiler.model, task, calibration, beam_size=beam_size)
    planned = _plan(spec, profiler, step, evaluation)
    if spec.pretraining is None or pretraining is None:
        return planned
    before = plan_run(spec.pretraining, pretraining, calibration, evaluated=evaluated)
    return replace(planned, pretraining=before)


def plan_alternative(known: Plan, spec: RunSpec, task: Task, calibration: Calibration) -> Plan:
    """A quicker plan of another model on the same task.

    The time of its evaluations is scaled by the ratio of the step times.
    """
    profiler = StepProfiler(spec, task)
    step = profiler.estimate_step(
        calibration, samples=ALTERNATIVE_SAMPLES, max_flops=ALTERNATIVE_MAX_FLOPS
    )
    ratio = step.estimate.seconds / known.seconds_per_step
    planned = _plan(spec, profiler, step, known.evaluation.times(ratio))
    if known.pretraining is None:
        return planned
    # The same model is pre-trained: its steps are slower by the same ratio.
    before = replace(known.pretraining, seconds_per_step=ratio * known.pretraining.seconds_per_step)
    return replace(planned, pretraining=before)


def _plan(
    spec: RunSpec, profiler: StepProfiler, step: StepEstimate, evaluation: EvaluationEstimate
) -> Plan:
    checkpoint = profiler.training_state_bytes / CHECKPOINT_BYTES_PER_SECOND
    steps = steps_within(spec.training, step)
    every = spec.training.evaluate_every
    evaluations = -(-steps // every) if isinstance(every, int) else math.ceil(1 / every)
    training = steps * step.estimate.seconds
    # One per evaluation, one at the end, and the periodic ones.
    periodic = training / max(spec.training.checkpoint_seconds, step.estimate.seconds)
    checkpoints = evaluations + 1 + int(periodic)
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
            data=float(profiler.task.dataset.train.num_bytes),
            training_state=float(profiler.training_state_bytes),
            step=step.estimate.peak_bytes,
            checkpoint=float(CHECKPOINT_COPIES * profiler.training_state_bytes),
            # A copy of the current parameters while the averaged ones are evaluated.
            evaluation=profiler.parameter_bytes + evaluation.peak_bytes,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class DecodingPlan:
    """Predictions for a step of decoding: one more token in `batch_size` rows after `length` tokens."""

    model: str
    mechanism: str
    parameters: int
    batch_size: int
    length: int
    seconds_per_step: float
    state_bytes: int
    peak_bytes: float

    @property
    def tokens_per_second(self) -> float:
        """Throughput over all rows."""
        return self.batch_size / self.seconds_per_step

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "tokens_per_second": self.tokens_per_second}


def plan_decoding(
    spec: RunSpec, task: Task, calibration: Calibration, *, batch_size: int, length: int
) -> DecodingPlan:
    """Plan decoding with dummy sources of `length` tokens or frames, and as many tokens decoded before."""
    if task.target_kind != "sequence":
        raise RegardError(
            f"--decode plans the generation of tokens, and the task '{spec.task}' generates none. "
            "Remove --decode."
        )
    model: Any = build_spec_model(spec, task.dataset.preprocessor).eval()
    if not is_autoregressive(model):
        raise RegardError(
            f"--decode plans one token after another, and the model '{spec.model}' predicts all at once. "
            "Remove --decode, or set model.name=transformer."
        )
    lengths = torch.full((batch_size,), length)
    with torch.inference_mode():
        source: Input = TokenInput(torch.full((batch_size, length), FIRST_TOKEN), lengths)
        if task.input_kind == "frames":
            features = len(task.dataset.preprocessor.input)
            source = FrameInput(torch.zeros(batch_size, length, features), lengths)
        state = model.start(source)
        token = torch.full((batch_size,), FIRST_TOKEN)
        # A decoder-only model has read the source; a decoder is brought to the same position.
        while int(state.position.min()) < length - 1:
            state = model.step(state, token).state
        step = torch.inference_mode()(lambda: model.step(state, token))
        estimate = estimate_run(step, "decode", calibration)
    parameters = list(model.parameters())
    tensors = [part for part in tree_iter(state) if isinstance(part, Tensor)]
    # The transposed output table is part of the state, but no cache.
    own = {id(part) for part in (*parameters, getattr(state, "output_weight", None))}
    state_bytes = sum(part.numel() * part.element_size() for part in tensors if id(part) not in own)
    fixed = sum(part.numel() * part.element_size() for part in parameters)
    return DecodingPlan(
        model=spec.model,
        mechanism=mechanism_name(spec),
        parameters=sum(part.numel() for part in parameters),
        batch_size=batch_size,
        length=length,
        seconds_per_step=estimate.seconds,
        state_bytes=state_bytes,
        peak_bytes=PROCESS_BYTES + fixed + state_bytes + estimate.peak_bytes,
    )


def steps_within(options: TrainingOptions, step: StepEstimate) -> int:
    """Number of steps until the first budget is exhausted."""
    per_step = {
        "steps": 1.0,
        "tokens": step.tokens,
        "seconds": step.estimate.seconds,
        "flops": step.budget_flops,
    }
    limits = options.budget._asdict()
    return min(
        max(1, math.ceil(limit / per_step[name]))
        for name, limit in limits.items()
        if limit is not None
    )


def mechanism_name(spec: RunSpec) -> str:
    """The mechanism's name; if the slots differ, each with its own: "encoder elu, …"; "none" without."""
    slots = traits_of(model_class(spec.model)).slots
    names = {}
    for slot in slots:
        own = model_option(spec, slot.option)
        if own is None and slot.fallback is not None:
            own = model_option(spec, slot.fallback)
        names[slot.name] = "+".join(map(str, own)) if isinstance(own, list | tuple) else str(own)
    if len(set(names.values())) <= 1:
        return next(iter(names.values()), "none").replace("None", "none")
    return ", ".join(f"{slot} {name}" for slot, name in names.items())


# Widths grow by a factor 2^(1/4) from one size to the next, from 1/16 to 16 times the spec's own.
SIZES_PER_DOUBLING = 4
MIN_SIZE, MAX_SIZE = -4 * SIZES_PER_DOUBLING, 4 * SIZES_PER_DOUBLING

Planned = TypeVar("Planned")


def scale_widths(spec: RunSpec, size: int) -> RunSpec:
    """The spec with the sizes of its model scaled by 2^(size/4), rounded to their units."""
    factor = 2 ** (size / SIZES_PER_DOUBLING)
    widths = {}
    for name in traits_of(model_class(spec.model)).sizes:
        if (width := model_option(spec, name)) is not None:
            unit = math.lcm(size_unit(spec, name), 4)
            widths[name] = max(1, round(factor * width / unit)) * unit
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


def dummy_task(spec: RunSpec, *, length: int) -> Task:
    """A task with one batch of random pairs whose source and target have `length` tokens each.

    Vocabulary sizes are those of the options; a character vocabulary has CHARACTERS.
    """
    options, kind = spec.task_options, task_class(spec.task)
    if not issubclass(kind, SequenceTask) or kind.input_kind != "tokens":
        raise RegardError(
            f"--length {length} generates text pairs, which the task '{spec.task}' does not use. Plan it "
            "with its data."
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
    rng, pairs = np.random.default_rng(0), options.batch_tokens // tokens
    token_ids = [
        rng.integers(FIRST_TOKEN, vocabulary.size, size=(pairs, length)).tolist()
        for vocabulary in (source, target)
    ]
    dataset = Dataset(
        preprocessor=kind.preprocessor_class(options, input=source, target=target),
        train=pair_examples(zip(*token_ids, strict=True)),
        # A task needs a validation split; plans do not use it.
        validation=EvalSplit(inputs=(source.tokens[0],), references=((target.tokens[0],),)),
    )
    greedy = partial(decode, beam_size=1)
    return kind(dataset=dataset, options=options, seed=spec.seed, decode=greedy)


def _vocabulary(kind: str, size: int) -> Vocabulary:
    count = CHARACTERS if kind == "characters" else size
    return WordVocabulary(
        tokens=[str(number) for number in range(count - FIRST_TOKEN)], lowercase=False
    )
