"""A run folder becomes a model again: `load(RUN)` to predict, to look, to score."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.batches import END, START
from regard.core.errors import RegardError
from regard.core.protocols import Decode
from regard.core.records.attention import AlignmentRecord
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut
from regard.models import MODELS
from regard.models.generation.sampling import sample
from regard.runs.build import best_decoding, build_spec_model
from regard.runs.folder import RunFolder
from regard.runs.spec import RunSpec, renamed
from regard.runs.train import spec_of
from regard.tasks import task_class
from regard.training.checkpoint import load_weights

TEXTS_AT_A_TIME = 512


class Example(NamedTuple):
    """One scored text."""

    source: str
    predicted: str
    answers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What a model wrote for every source of a file, beside the right answers, and how it scored.

    `signatures` say how those scores were computed that have several definitions.
    """

    sources: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    predicted: tuple[str, ...]
    scores: dict[str, float]
    signatures: dict[str, str]
    details: dict[str, Any] = field(default_factory=dict)
    # What has to be known before the scores are believed.
    notes: tuple[str, ...] = ()

    def examples(self, count: int, *, seed: int = 0) -> list[Example]:
        """So many texts, drawn by the seed and not by hand, in the order of the file."""
        drawn = random.Random(seed).sample(range(len(self.sources)), min(count, len(self.sources)))
        return [
            Example(self.sources[row], self.predicted[row], self.answers[row])
            for row in sorted(drawn)
        ]


class OnlyHeldOut(NamedTuple):
    """All that is left of a corpus where nothing is learned any more."""

    vocabularies: Any
    validation: HeldOut


class TrainedRun:
    """A trained model with its vocabularies; made by `load`."""

    def __init__(
        self, *, folder: RunFolder, spec: RunSpec, model: nn.Module, vocabularies: Any
    ) -> None:
        self.folder = folder
        self.spec = spec
        self.model = model
        self.vocabularies = vocabularies

    @property
    def record(self) -> dict[str, Any]:
        """Scores and counts, once the run is finished."""
        record: dict[str, Any] = self.folder.read_json(self.folder.record)
        return record

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl."""
        rows: list[dict[str, Any]] = self.folder.read_rows(self.folder.metrics)
        return rows

    def predict(
        self,
        texts: Iterable[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
    ) -> list[str]:
        """What the model writes for each text; decoded as the spec says unless told otherwise."""
        return list(self.predict_each(texts, beam_size=beam_size, length_penalty=length_penalty))

    def predict_each(
        self,
        texts: Iterable[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
    ) -> Iterator[str]:
        """As `predict`, a block of texts at a time, in order; an empty text gives an empty text."""
        decoding = self._decoding(beam_size, length_penalty)
        predict = partial(
            task_class(self.spec.task).predict,
            self.model,
            vocabularies=self.vocabularies,
            decode=decoding,
            options=self.spec.task_options,
        )
        stream = iter(texts)
        while block := [text.strip() for text in islice(stream, TEXTS_AT_A_TIME)]:
            filled = [text for text in block if text]
            written = iter(predict(filled))
            for text in block:
                yield next(written) if text else ""

    @property
    def answers(self) -> bool:
        """Whether the model reads a text and writes another, step by step."""
        return bool(task_class(self.spec.task).decoding(self.spec.task_options))

    @property
    def goes_on(self) -> bool:
        """Whether the model goes on with a text (see `continued`), instead of answering it."""
        return task_class(self.spec.task).goes_on

    def continued(
        self,
        text: str,
        *,
        max_tokens: int = 200,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> Iterator[str]:
        """The text that a language model writes after `text`, piece by piece; see models/sampling.py.

        `text` itself is not repeated. What was drawn can be drawn again with the same seed.
        """
        if not self.goes_on:
            raise RegardError(
                f"The run '{self.folder.path}' learned the task '{self.spec.task}', which answers a text "
                "and does not go on with it. Use predict."
            )
        vocabulary = self.vocabularies.target
        tokens = vocabulary.encode(text.strip())
        shown = len(vocabulary.decode(tokens))
        for token in sample(
            self.model,
            tuple(tokens),
            max_tokens=max_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            generator=torch.Generator().manual_seed(seed),
        ):
            tokens.append(token)
            whole = vocabulary.decode(tokens)
            yield whole[shown:]
            shown = len(whole)

    def score(self, pairs: str | PathLike[str], **words: Any) -> dict[str, float]:
        """The task's metrics on a file of pairs; `words` as for `assess`."""
        return self.assess(pairs, **words).scores

    def assess(
        self,
        pairs: str | PathLike[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        bad: BadRows | None = None,
        **file_options: Any,
    ) -> Assessment:
        """The model on a file of pairs; bad rows are an error, unless `bad` takes them in.

        `file_options` are those of the task that are about files, where this one differs from the
        run's own: format, source_column, target_column, header, max_line_bytes.
        """
        kind = task_class(self.spec.task)
        options = self._options_for(file_options)
        part = kind.held_out(
            str(pairs),
            options,
            vocabularies=self.vocabularies,
            bad=BadRows() if bad is None else bad,
        )
        task = kind(
            corpus=OnlyHeldOut(vocabularies=self.vocabularies, validation=part),
            options=options,
            seed=self.spec.seed,
            decode=self._decoding(beam_size, length_penalty),
        )
        with torch.inference_mode():
            assessed = task.assess_on(self.model, part)
            details = task.details(self.model, part, assessed)
        return Assessment(
            sources=part.sources,
            answers=part.answers,
            predicted=tuple(assessed.predicted),
            scores=assessed.scores,
            signatures=kind.signatures(),
            details=details,
            notes=tuple(task.notes(part)),
        )

    def alignment(
        self, text: str, *, beam_size: int | None = None, length_penalty: float | None = None
    ) -> AlignmentRecord:
        """Who read whom while the model wrote its output for one text, decoded as by `predict`."""
        if not text.strip():
            raise RegardError(
                "There is nothing to look at: the text is empty. Give a word or more."
            )
        source = torch.tensor([[*self.vocabularies.source.encode(text.strip()), END]])
        lengths = torch.tensor([source.shape[1]])
        hypothesis = self._decoding(beam_size, length_penalty)(self.model, source, lengths)[0]
        given = torch.tensor([[START, *hypothesis.tokens]])
        cross = self.source_weights(source, lengths, given)
        if not cross:
            raise RegardError(
                f"The model of '{self.folder.path}' has no attention over its source, so there is nothing "
                "to look at. Train one with a mechanism: --set model.mechanism=additive."
            )
        return AlignmentRecord(
            title=f"{text.strip()} → {self.vocabularies.target.decode(hypothesis.tokens)}",
            source_tokens=tuple(self.vocabularies.source.tokens_of(source[0].tolist())),
            output_tokens=tuple(self.vocabularies.target.tokens_of([*hypothesis.tokens, END])),
            maps={
                name: tuple(tuple(tuple(row) for row in head) for head in values[0].tolist())
                for name, values in cross.items()
            },
        )

    @property
    def labels_texts(self) -> bool:
        """Whether the model says the label of a text (see `runs/looking.py`)."""
        return bool(getattr(self.vocabularies, "labels", ()))

    def source_weights(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> dict[str, Float[Tensor, "batch heads target_length source_length"]]:
        """Every attention over the source, by name; none in a model without.

        Row i was read to write the token that follows `given[:, : i + 1]`, in either wiring of a recurrent
        model: before its update, a step reads with the state that has not yet seen `given[:, i]`.
        """
        with torch.inference_mode():
            weights: dict[str, Tensor] = self.model.weights(source, source_lengths, given)  # type: ignore[operator]
        return {name: values for name, values in weights.items() if name.startswith("cross")}

    @property
    def reads_source(self) -> bool:
        """Whether the model has an attention over its source at all; one of single texts has no source."""
        if MODELS[self.spec.model].reads != "pairs":
            return False
        return bool(
            self.source_weights(torch.tensor([[END]]), torch.tensor([1]), torch.tensor([[START]]))
        )

    def _options_for(self, file_options: dict[str, Any]) -> Any:
        """The run's own options with those about files replaced, which must be the task's."""
        options = self.spec.task_options
        known = {field.name for field in fields(options)}
        given = {renamed(name, known): value for name, value in file_options.items()}
        for name, value in given.items():
            if name not in known:
                raise RegardError(
                    f"{name}={value}: files of the task '{self.spec.task}' have no such thing. Leave "
                    "it away."
                )
        return replace(options, **given)

    def _decoding(self, beam_size: int | None, length_penalty: float | None) -> Decode:
        return best_decoding(self.spec, beam_size=beam_size, length_penalty=length_penalty)


def load(run: str | PathLike[str]) -> TrainedRun:
    """The trained model of a run folder, ready to use."""
    folder = RunFolder.existing(Path(run))
    spec = spec_of(folder)
    kind = task_class(spec.task).vocabularies_class
    vocabularies = kind.from_json(folder.read_json(folder.vocabulary))
    model = build_spec_model(spec, vocabularies)
    load_weights(model, folder.model)
    return TrainedRun(folder=folder, spec=spec, model=model.eval(), vocabularies=vocabularies)
