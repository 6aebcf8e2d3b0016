"""The models of a server, and what the worker thread does with their inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.core.errors import RegardError
from regard.core.registry import lookup
from regard.explain.faithfulness import read_faithfulness
from regard.explain.interventions import HeadEdit, KnockOut, MeanHead, ZeroHead
from regard.explain.look import look
from regard.explain.run_source import RunSource
from regard.runs.inputs import EncodedInput, file_input, input_name, sound_input, text_input
from regard.runs.load import TrainedRun
from regard.serving.limits import Limits
from regard.serving.schemas import Change, EdgeChange, ExplainRequest, ModelInfo, PredictRequest

# It takes longer than a client waits, so a server does not measure it.
NOT_MEASURED = "not measured; `regard look` measures it once for a run"
DECODING = ("beam_size", "length_penalty")
SAMPLING = ("max_new_tokens", "temperature", "top_k", "top_p")


class AbandonedError(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True)
class Predict:
    """Predictions of a run, for a batch."""

    trained: TrainedRun
    beam_size: int | None = None
    length_penalty: float | None = None
    is_batched: bool = True

    def run(self, values: list[Any], *, is_wanted: Callable[[], bool]) -> Sequence[Any]:
        """The prediction for each value."""
        return self.trained.predict(
            values, beam_size=self.beam_size, length_penalty=self.length_penalty
        )


@dataclass(frozen=True)
class Generate:
    """The continuation of a text by a language model, token by token."""

    trained: TrainedRun
    sampling: tuple[tuple[str, Any], ...]
    is_batched: bool = False

    def run(self, values: list[Any], *, is_wanted: Callable[[], bool]) -> Sequence[Any]:
        """The text with its continuation."""
        (text,) = values
        found = [text.strip()]
        for piece in self.trained.generate(text, **dict(self.sampling)):
            if not is_wanted():
                raise AbandonedError
            found.append(piece)
        return ["".join(found)]


@dataclass(frozen=True, eq=False)
class Explain:
    """The attention of a run on one input, as the JSON of a `LookRecord`."""

    trained: TrainedRun
    name: str
    request: ExplainRequest
    is_measured: bool = False
    is_batched: bool = False

    def run(self, values: list[Any], *, is_wanted: Callable[[], bool]) -> Sequence[Any]:
        """The record of the value, with the changes in effect."""
        (value,), asked = values, self.request
        record = look(
            RunSource(self.trained, name=self.name),
            value,
            methods=None if asked.method is None else [asked.method],
            heads=asked.heads,
            target=asked.target,
            interventions=[intervention(each) for each in asked.interventions],
            with_faithfulness=self.is_measured,
        )
        if not self.is_measured:
            record = replace(record, faithfulness_note=NOT_MEASURED)
        return [record.as_json()]


def intervention(change: Change) -> HeadEdit:
    """The change of the weights that a client asks for; heads are counted from 1 there."""
    head = None if change.head is None else int(change.head) - 1
    if isinstance(change, EdgeChange):
        return KnockOut(change.layer, head, query=change.query, key=change.key)
    kinds = {"zero_head": ZeroHead, "mean_head": MeanHead}
    return kinds[change.kind](change.layer, head)


class ServedModel:
    """A run under the name that clients use."""

    def __init__(self, name: str, run: TrainedRun, limits: Limits) -> None:
        self.name, self.run, self.limits = name, run, limits
        self.input = input_name(run)
        self.is_measured = read_faithfulness(run) is not None

    def info(self) -> ModelInfo:
        """What /models says about it."""
        labels = list(getattr(self.run.preprocessor.target, "labels", ()))
        is_number = self.run.preprocessor.target is not None and not (
            labels or hasattr(self.run.preprocessor.target, "tokens")
        )
        return ModelInfo(
            name=self.name,
            task=self.run.spec.task,
            model=self.run.spec.model,
            input=self.input,
            output="label" if labels else "number" if is_number else "text",
            labels=labels,
            parameters=sum(each.numel() for each in self.run.model.parameters()),
            continues_text=self.run.is_generative,
        )

    def encode(self, value: str | bytes) -> EncodedInput:
        """An input within the limits; text is never taken for the name of a file."""
        if isinstance(value, str):
            return text_input(self.run, value, max_tokens=self.limits.max_tokens)
        return file_input(self.run, value, max_pixels=self.limits.max_pixels)

    def explanation(self, request: ExplainRequest) -> Explain:
        """What is asked for, of one input."""
        return Explain(self.run, self.name, request, self.is_measured)

    def encode_shown(self, value: str | bytes) -> EncodedInput:
        """As `encode`, of an input that is drawn: a sound stays a sound."""
        if self.input == "sound" and isinstance(value, bytes):
            return EncodedInput(sound_input(self.run, value), 1)
        return self.encode(value)

    def work(self, request: PredictRequest) -> Predict | Generate:
        """What is asked for; raises if an option does not suit the model."""
        given = request.model_dump(exclude_none=True, include={*DECODING, *SAMPLING})
        suitable = SAMPLING if self.run.is_generative else DECODING if self.run.is_seq2seq else ()
        for name, value in given.items():
            if name not in suitable:
                takes = f"it takes {', '.join(suitable)}" if suitable else "it takes no such option"
                raise RegardError(
                    f"{name}={value} is not an option of the model '{self.name}', whose task is "
                    f"'{self.run.spec.task}': {takes}. Remove it."
                )
        if not self.run.is_generative:
            return Predict(self.run, **given)
        asked, most = given.pop("max_new_tokens", None), self.limits.max_new_tokens
        if asked is not None and asked > most:
            raise RegardError(
                f"max_new_tokens={asked}: the maximum of this server is {most}. Ask for fewer, or start "
                "the server with a larger --max-new-tokens."
            )
        given |= {"max_tokens": min(200, most) if asked is None else asked, "seed": request.seed}
        return Generate(self.run, tuple(sorted(given.items())))


def served_models(runs: Sequence[TrainedRun], limits: Limits) -> dict[str, ServedModel]:
    """The models by name: that of the folder, with a number where several have it."""
    found: dict[str, ServedModel] = {}
    for run in runs:
        name = folder = run.folder.path.resolve().name or "run"
        number = 1
        while name in found:
            number += 1
            name = f"{folder} ({number})"
        found[name] = ServedModel(name, run, limits)
    return found


def model_named(name: str | None, models: dict[str, ServedModel]) -> ServedModel:
    """The model of a name; the first for None."""
    if name is None:
        return next(iter(models.values()))
    found: ServedModel = lookup("model", name, models)
    return found
