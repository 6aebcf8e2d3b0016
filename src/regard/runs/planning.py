"""What a run will take on this machine: seconds, bytes, operations, tokens, before it is begun.

A few real batches are trained on, one step each and with a learning rate of 0; the operators they call are
looked up in the machine's calibration (`regard.costs`). Evaluations are priced in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from regard.costs.calibration import Calibration
from regard.runs.designs import PLACES, option_of
from regard.runs.evaluation_price import NOT_EVALUATED, EvaluationPrice, evaluation_price
from regard.runs.spec import RunSpec
from regard.runs.trainee import StepPrice, Trainee
from regard.tasks.run_task import RunTask
from regard.training.options import TrainingOptions

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
