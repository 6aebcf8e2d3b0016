"""Loading a run folder: `load(RUN)` returns a trained model that predicts and evaluates."""

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
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit
from regard.models import MODELS
from regard.models.generation.sampling import sample
from regard.runs.build import build_decoding, build_spec_model
from regard.runs.folder import RunFolder
from regard.runs.spec import RunSpec, task_option_name
from regard.runs.train import read_spec
from regard.tasks import task_class
from regard.training.checkpoint import load_parameters

PREDICT_BATCH = 512


class Example(NamedTuple):
    """One evaluated item."""

    input: str
    prediction: str
    references: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """Predictions and scores of a model on a file.

    `signatures` identify the exact definition of metrics that have several; `notes` are caveats.
    """

    inputs: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    predictions: tuple[str, ...]
    scores: dict[str, float]
    signatures: dict[str, str]
    details: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def examples(self, count: int, *, seed: int = 0) -> list[Example]:
        """A random sample of items, in file order."""
        drawn = random.Random(seed).sample(range(len(self.inputs)), min(count, len(self.inputs)))
        return [
            Example(self.inputs[row], self.predictions[row], self.references[row])
            for row in sorted(drawn)
        ]


class EvalCorpus(NamedTuple):
    """A corpus without training data."""

    vocabularies: Any
    validation: EvalSplit


class TrainedRun:
    """A trained model with its vocabularies, as returned by `load`."""

    def __init__(
        self, *, folder: RunFolder, spec: RunSpec, model: nn.Module, vocabularies: Any
    ) -> None:
        self.folder = folder
        self.spec = spec
        self.model = model
        self.vocabularies = vocabularies

    @property
    def record(self) -> dict[str, Any]:
        """The content of record.json of a finished run."""
        record: dict[str, Any] = self.folder.read_json(self.folder.record)
        return record

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl."""
        rows: list[dict[str, Any]] = self.folder.read_jsonl(self.folder.metrics)
        return rows

    def predict(
        self,
        texts: Iterable[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
    ) -> list[str]:
        """The prediction for each text; decoding options default to those of the spec."""
        return list(self.predict_each(texts, beam_size=beam_size, length_penalty=length_penalty))

    def predict_each(
        self,
        texts: Iterable[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
    ) -> Iterator[str]:
        """As `predict`, as an iterator, batch by batch; the prediction for an empty text is empty."""
        decoding = self._decoding(beam_size, length_penalty)
        predict = partial(
            task_class(self.spec.task).predict,
            self.model,
            vocabularies=self.vocabularies,
            decode=decoding,
            options=self.spec.task_options,
        )
        stream = iter(texts)
        while batch := [text.strip() for text in islice(stream, PREDICT_BATCH)]:
            predictions = iter(predict([text for text in batch if text]))
            for text in batch:
                yield next(predictions) if text else ""

    @property
    def is_seq2seq(self) -> bool:
        """Whether the model decodes an output sequence for an input sequence."""
        return bool(task_class(self.spec.task).decode_kwargs(self.spec.task_options))

    @property
    def is_generative(self) -> bool:
        """Whether the model is a language model that continues a text; see `generate`."""
        return task_class(self.spec.task).is_generative

    def generate(
        self,
        text: str,
        *,
        max_tokens: int = 200,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> Iterator[str]:
        """Sample a continuation of `text` from a language model, as a stream of strings.

        `text` itself is not repeated. The same seed gives the same continuation.
        """
        if not self.is_generative:
            raise RegardError(
                f"The run '{self.folder.path}' has the task '{self.spec.task}', not a language model. Use "
                "predict."
            )
        vocabulary = self.vocabularies.target
        tokens = vocabulary.encode(text.strip())
        yielded = len(vocabulary.decode(tokens))
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
            decoded = vocabulary.decode(tokens)
            yield decoded[yielded:]
            yielded = len(decoded)

    def score(self, path: str | PathLike[str], **kwargs: Any) -> dict[str, float]:
        """The task's metrics on a file; arguments as for `evaluate`."""
        return self.evaluate(path, **kwargs).scores

    def evaluate(
        self,
        path: str | PathLike[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        errors: RowErrors | None = None,
        **file_options: Any,
    ) -> EvaluationReport:
        """Predictions and scores on a file; malformed rows raise, unless `errors` collects them.

        `file_options` override the run's own options of its files: format, source_column,
        target_column, header, max_line_bytes.
        """
        kind = task_class(self.spec.task)
        options = self._options_for(file_options)
        split = kind.read_split(
            str(path),
            options,
            vocabularies=self.vocabularies,
            errors=RowErrors() if errors is None else errors,
        )
        task = kind(
            corpus=EvalCorpus(vocabularies=self.vocabularies, validation=split),
            options=options,
            seed=self.spec.seed,
            decode=self._decoding(beam_size, length_penalty),
        )
        with torch.inference_mode():
            result = task.evaluate_on(self.model, split)
            details = task.details(self.model, split, result)
        return EvaluationReport(
            inputs=split.inputs,
            references=split.references,
            predictions=tuple(result.predictions),
            scores=result.scores,
            signatures=kind.signatures(),
            details=details,
            notes=tuple(task.notes(split)),
        )

    def alignment(
        self, text: str, *, beam_size: int | None = None, length_penalty: float | None = None
    ) -> AlignmentRecord:
        """The cross-attention weights between one text and the output decoded for it."""
        if not text.strip():
            raise RegardError("The text is empty. Give at least one word.")
        source = torch.tensor([[*self.vocabularies.source.encode(text.strip()), END]])
        lengths = torch.tensor([source.shape[1]])
        hypothesis = self._decoding(beam_size, length_penalty)(self.model, source, lengths)[0]
        decoder_input = torch.tensor([[START, *hypothesis.tokens]])
        cross = self.source_weights(source, lengths, decoder_input)
        if not cross:
            raise RegardError(
                f"The model of '{self.folder.path}' has no attention over its source. Train one with a "
                "mechanism: --set model.mechanism=additive."
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
    def is_classifier(self) -> bool:
        """Whether the model is a text classifier."""
        return bool(getattr(self.vocabularies, "labels", ()))

    def source_weights(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        decoder_input: Int[Tensor, "batch target_length"],
    ) -> dict[str, Float[Tensor, "batch heads target_length source_length"]]:
        """All cross-attention weights by name; empty for a model without cross-attention.

        Row i belongs to the prediction of the token after `decoder_input[:, : i + 1]`, in both attention
        styles of a recurrent model; in Bahdanau style, the query has not yet seen `decoder_input[:, i]`.
        """
        with torch.inference_mode():
            weights: dict[str, Tensor] = self.model.weights(source, source_lengths, decoder_input)  # type: ignore[operator]
        return {name: values for name, values in weights.items() if name.startswith("cross")}

    @property
    def has_cross_attention(self) -> bool:
        """Whether the model attends to a source sequence."""
        if MODELS[self.spec.model].inputs != "pairs":
            return False
        return bool(
            self.source_weights(torch.tensor([[END]]), torch.tensor([1]), torch.tensor([[START]]))
        )

    def _options_for(self, file_options: dict[str, Any]) -> Any:
        """The task options of the run with `file_options` replaced."""
        options = self.spec.task_options
        known = {field.name for field in fields(options)}
        changes = {task_option_name(name, known): value for name, value in file_options.items()}
        for name, value in changes.items():
            if name not in known:
                raise RegardError(
                    f"{name}={value}: the task '{self.spec.task}' has no such option. Remove it."
                )
        return replace(options, **changes)

    def _decoding(self, beam_size: int | None, length_penalty: float | None) -> Decode:
        return build_decoding(self.spec, beam_size=beam_size, length_penalty=length_penalty)


def load(run: str | PathLike[str]) -> TrainedRun:
    """Load the trained model of a run folder, in evaluation mode."""
    folder = RunFolder.existing(Path(run))
    spec = read_spec(folder)
    kind = task_class(spec.task).vocabularies_class
    vocabularies = kind.from_json(folder.read_json(folder.vocabulary))
    model = build_spec_model(spec, vocabularies)
    load_parameters(model, folder.model)
    return TrainedRun(folder=folder, spec=spec, model=model.eval(), vocabularies=vocabularies)
