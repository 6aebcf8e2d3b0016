"""What a run will take on this machine: seconds, bytes, operations, tokens, before it is begun.

A few real batches are trained on, one step each and with a learning rate of 0; the operators they call are
looked up in the machine's calibration (`regard.costs`). Evaluations are priced in the same way.
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
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut
from regard.data.token_store import TokenStore
from regard.data.tokenizers.vocabulary import FIRST_TOKEN, Vocabulary
from regard.data.tokenizers.word_level import WordVocabulary
from regard.mechanisms.compatibility import fitting_mechanisms
from regard.models import model_class
from regard.models.generation.search import decode
from regard.models.seq2seq.recurrent import SCORES, WITHOUT
from regard.runs.profile import NOT_EVALUATED, EvaluationPrice, StepPrice, Trainee, evaluation_price
from regard.runs.spec import RunSpec
from regard.tasks import task_class
from regard.tasks.seq2seq.corpus import PairCorpus, PairOptions, PairVocabularies
from regard.tasks.seq2seq.task import PairTask
from regard.tasks.task import RunTask
from regard.training.options import TrainingOptions

# Other models for the same task: each model and mechanism that can take the place of a spec's own.


PLACES = ("encoder", "decoder", "cross")
# What belongs to the mechanism that is replaced.
OF_THE_MECHANISM = {
    *("mechanism", "mechanism_options"),
    *(f"{place}_{what}" for place in PLACES for what in ("mechanism", "options")),
}
HEADS = 4
# The width of a head is even, for positions that turn pairs of numbers.
WIDTH_OF_A_HEAD = 2


def designs(spec: RunSpec) -> Iterator[RunSpec]:
    """The spec with every mechanism in its model's place, then those of the other model, as wide.

    A decoder-only model stands for itself: what it has read before is in its one stack.
    """
    models = {"recurrent": [WITHOUT, *SCORES], "transformer": mechanisms_for_all_places()}
    if spec.model == "decoder_only":
        causal = fitting_mechanisms(role="self", causal=True, masks=frozenset({"causal"}))
        models = {"decoder_only": causal}
    for model, others in models.items():
        options = spec.model_options if model == spec.model else _as_wide(spec)
        kept = {name: value for name, value in options.items() if name not in OF_THE_MECHANISM}
        for mechanism in others:
            yield replace(spec, model=model, model_options={**kept, "mechanism": mechanism})


def mechanisms_for_all_places() -> list[str]:
    """Those that can be the encoder's, the decoder's and what reads the source in a Transformer."""
    encoder = fitting_mechanisms(role="self", causal=False, masks=frozenset({"padding"}))
    decoder = fitting_mechanisms(role="self", causal=True, masks=frozenset({"causal"}))
    cross = fitting_mechanisms(role="cross", causal=False, masks=frozenset({"padding"}))
    return [name for name in encoder if name in decoder and name in cross]


def option_of(spec: RunSpec, name: str) -> Any:
    """An option of the spec's model, as given or as it is else."""
    default = inspect.signature(model_class(spec.model)).parameters[name].default
    return spec.model_options.get(name, default)


def _as_wide(spec: RunSpec) -> dict[str, Any]:
    """The other model in the width of this one; its depth is its own."""
    dropout = {"dropout": option_of(spec, "dropout")}
    if spec.model == "transformer":
        width = option_of(spec, "model_dim")
        return {"embedding_dim": width, "hidden_dim": width, "wiring": "after", **dropout}
    unit = HEADS * WIDTH_OF_A_HEAD
    width = max(1, round(option_of(spec, "hidden_dim") / unit)) * unit
    tie = "all" if spec.task_options.shared_vocabulary else "target"
    return {"model_dim": width, "num_heads": HEADS, "tie": tie, **dropout}


# Python with torch, Fabric and the tokenizers loaded, as the kernel counts it (VmRSS).
PROCESS_BYTES = 350e6
# A checkpoint is checked, packed and written: measured on a virtual disk.
CHECKPOINT_BYTES_A_SECOND = 350e6
# What packing holds beside the tensors: each as bytes, and all of them joined.
CHECKPOINT_COPIES = 2
# Batches that are trained on, and operations of a step that is run whole: a few seconds on two cores.
SAMPLES, MOST_OPERATIONS = 6, 3e11
# The same for models that are compared with a known one, of which there are many.
SAMPLES_BESIDE, MOST_BESIDE = 1, 1e11


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes at the peak of a run: what is there all the time, and the most that comes on top."""

    process: float
    data: float
    kept: float
    step: float
    checkpoint: float
    evaluation: float

    @property
    def peak(self) -> float:
        """Steps, checkpoints and evaluations take turns."""
        on_top = max(self.step, self.checkpoint, self.evaluation)
        return self.process + self.data + self.kept + on_top


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Predictions for one spec; `evaluation_seconds` are those of all evaluations while it trains."""

    model: str
    mechanism: str
    options: dict[str, Any]
    parameters: int
    steps: int
    seconds_per_step: float
    tokens_per_step: float
    operations_per_step: float
    evaluations: int
    evaluation: EvaluationPrice
    checkpoint_seconds: float
    memory: Memory

    @property
    def training_seconds(self) -> float:
        """All steps."""
        return self.steps * self.seconds_per_step

    @property
    def evaluation_seconds(self) -> float:
        """All evaluations while it trains."""
        return self.evaluations * self.evaluation.each_seconds

    @property
    def total_seconds(self) -> float:
        """From the first step to the final scores."""
        beside = self.evaluation_seconds + self.checkpoint_seconds + self.evaluation.final_seconds
        return self.training_seconds + beside

    def as_json(self) -> dict[str, Any]:
        """Plain values, totals included."""
        return {
            "model": self.model,
            "mechanism": self.mechanism,
            "options": self.options,
            "parameters": self.parameters,
            "steps": self.steps,
            "seconds_per_step": self.seconds_per_step,
            "tokens_per_step": self.tokens_per_step,
            "operations_per_step": self.operations_per_step,
            "tokens": round(self.steps * self.tokens_per_step),
            "operations": self.steps * self.operations_per_step,
            "seconds": {
                "training": self.training_seconds,
                "evaluations": self.evaluation_seconds,
                "checkpoints": self.checkpoint_seconds,
                "final_scores": self.evaluation.final_seconds,
                "total": self.total_seconds,
            },
            "bytes": {**vars(self.memory), "peak": self.memory.peak},
        }


def plan_run(
    spec: RunSpec, task: RunTask, calibration: Calibration, *, evaluated: bool = True
) -> Plan:
    """The plan of a spec on its task; not `evaluated` where there is no data to evaluate on."""
    trainee = Trainee(spec, task)
    step = trainee.step_price(calibration, samples=SAMPLES, most=MOST_OPERATIONS)
    evaluation = NOT_EVALUATED
    if evaluated:
        evaluation = evaluation_price(
            trainee.model, task, calibration, beam_size=spec.task_options.beam_size
        )
    return _plan(spec, trainee, step, evaluation)


def plan_beside(known: Plan, spec: RunSpec, task: RunTask, calibration: Calibration) -> Plan:
    """The plan of another model on the same task, in less time.

    Its evaluations are taken to be slower than the known ones by as much as its steps are.
    """
    trainee = Trainee(spec, task)
    step = trainee.step_price(calibration, samples=SAMPLES_BESIDE, most=MOST_BESIDE)
    slower = step.price.seconds / known.seconds_per_step
    return _plan(spec, trainee, step, known.evaluation.times(slower))


def _plan(spec: RunSpec, trainee: Trainee, step: StepPrice, evaluation: EvaluationPrice) -> Plan:
    checkpoint = trainee.kept_bytes / CHECKPOINT_BYTES_A_SECOND
    steps = steps_within(spec.training, step, evaluation, checkpoint=checkpoint)
    evaluations = -(-steps // spec.training.evaluate_every)
    training = steps * step.price.seconds
    # One with every evaluation, one in the end, and those of the clock.
    of_clock = training / max(spec.training.checkpoint_seconds, step.price.seconds)
    checkpoints = evaluations + 1 + int(of_clock)
    store = trainee.task.corpus.train
    data = (store.source_tokens, store.source_offsets, store.target_tokens, store.target_offsets)
    return Plan(
        model=spec.model,
        mechanism=mechanism_of(spec),
        options=spec.model_options,
        parameters=trainee.parameters,
        steps=steps,
        seconds_per_step=step.price.seconds,
        tokens_per_step=step.tokens,
        operations_per_step=step.price.operations,
        evaluations=evaluations,
        evaluation=evaluation,
        checkpoint_seconds=checkpoints * checkpoint,
        memory=Memory(
            process=PROCESS_BYTES,
            data=float(sum(array.nbytes for array in data)),
            kept=float(trainee.kept_bytes),
            step=step.price.peak_bytes,
            checkpoint=float(CHECKPOINT_COPIES * trainee.kept_bytes),
            # The weights that training goes on with are put aside.
            evaluation=trainee.weight_bytes + evaluation.peak_bytes,
        ),
    )


def steps_within(
    options: TrainingOptions, step: StepPrice, evaluation: EvaluationPrice, *, checkpoint: float
) -> int:
    """How many steps the first budget to end allows; seconds count all that happens on the way."""
    aside = (evaluation.each_seconds + checkpoint) / options.evaluate_every
    a_step = {
        "steps": 1.0,
        "tokens": step.tokens,
        "seconds": step.price.seconds + aside,
        "operations": step.declared,
    }
    limits = options.budget._asdict()
    return min(
        max(1, math.ceil(limit / a_step[name]))
        for name, limit in limits.items()
        if limit is not None
    )


def mechanism_of(spec: RunSpec) -> str:
    """The name of the attention; where places differ, each with its own: "encoder elu, …"."""
    own = {place: spec.model_options.get(f"{place}_mechanism") for place in PLACES}
    for_all = str(option_of(spec, "mechanism") or "none")
    if not any(own.values()):
        return for_all
    return ", ".join(f"{place} {name or for_all}" for place, name in own.items())


# The largest model within limits: a spec's widths scaled together until it no longer fits.


# model → its widths
WIDTHS = {
    "transformer": ("model_dim", "feed_forward_dim"),
    "recurrent": ("embedding_dim", "hidden_dim"),
}
# Widths grow by a fifth from one size to the next, from a 16th to 16 times the spec's own.
SIZES_A_DOUBLING = 4
SMALLEST, GREATEST = -4 * SIZES_A_DOUBLING, 4 * SIZES_A_DOUBLING

Planned = TypeVar("Planned")


def scaled(spec: RunSpec, size: int) -> RunSpec:
    """The spec so many sizes larger; every width stays a multiple of what its heads need."""
    factor = 2 ** (size / SIZES_A_DOUBLING)
    unit = WIDTH_OF_A_HEAD
    if spec.model == "transformer":
        unit *= option_of(spec, "num_heads")
    unit = math.lcm(unit, 4)
    widths = {
        name: max(1, round(factor * width / unit)) * unit
        for name in WIDTHS[spec.model]
        if (width := option_of(spec, name)) is not None
    }
    return spec if size == 0 else replace(spec, model_options={**spec.model_options, **widths})


def largest(
    plan_at: Callable[[int], Planned], fits: Callable[[Planned], bool]
) -> tuple[Planned | None, Planned | None]:
    """The plan of the greatest size that fits, and of the smallest one tried that does not.

    Sizes are tried in steps that double, then by halves: what fits is taken to fit when smaller.
    """
    at = plan_at(0)
    direction, best, worst = (1, at, None) if fits(at) else (-1, None, at)
    low, high = (0, None) if best is not None else (None, 0)
    reach = 1
    while (high if direction == 1 else low) is None:
        size = max(SMALLEST, min(GREATEST, direction * reach))
        tried = plan_at(size)
        if fits(tried):
            low, best = size, tried
        else:
            high, worst = size, tried
        if size in (SMALLEST, GREATEST):
            break
        reach *= 2
    while low is not None and high is not None and high - low > 1:
        size = (low + high) // 2
        tried = plan_at(size)
        if fits(tried):
            low, best = size, tried
        else:
            high, worst = size, tried
    return best, worst


# A task without data: pairs of one length with drawn tokens, to plan what is not at hand yet.


# Letters, digits and signs of a European language.
CHARACTERS = 100


def made_up_task(spec: RunSpec, *, length: int) -> PairTask:
    """The task of a spec on one batch of pairs whose source and target have `length` tokens each.

    A vocabulary has the size that the options give, and of characters, CHARACTERS.
    """
    options, kind = spec.task_options, task_class(spec.task)
    if not issubclass(kind, PairTask) or not isinstance(options, PairOptions):
        raise RegardError(
            f"--length makes up pairs of texts, which the task '{spec.task}' does not learn from. Plan it "
            "with its data."
        )
    places = 2 * length + 3  # START once, END twice
    if length < 1 or places > options.batch_tokens:
        raise RegardError(
            f"--length {length}: a pair of such texts takes {places} places, and a batch has "
            f"task.batch_tokens={options.batch_tokens}. Choose a length of at least 1, or larger batches."
        )
    source = _vocabulary(options.source_tokens, options.vocabulary_size)
    target = (
        source
        if options.shared_vocabulary
        else _vocabulary(options.target_tokens, options.vocabulary_size)
    )
    rows = options.batch_tokens // places
    chance = np.random.default_rng(0)
    drawn = [
        chance.integers(FIRST_TOKEN, vocabulary.size, size=(rows, length)).tolist()
        for vocabulary in (source, target)
    ]
    nothing = HeldOut(sources=(), answers=())
    # A task must have something to evaluate on; no plan looks at it.
    one = HeldOut(sources=(source.tokens[0],), answers=((target.tokens[0],),))
    corpus = PairCorpus(
        vocabularies=PairVocabularies(source=source, target=target),
        train=TokenStore.build(zip(*drawn, strict=True)),
        validation=one,
        test=nothing,
        learned_too={},
        bad=BadRows(),
    )
    return kind(corpus=corpus, options=options, seed=spec.seed, decode=partial(decode, beam_size=1))


def _vocabulary(kind: str, size: int) -> Vocabulary:
    count = CHARACTERS if kind == "characters" else size
    return WordVocabulary(
        tokens=[str(number) for number in range(count - FIRST_TOKEN)], lowercase=False
    )
