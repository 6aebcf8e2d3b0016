"""Loading a run folder: `load(RUN)` returns a trained model that predicts and evaluates."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.batches import END, START, FrameInput, Input, TokenInput
from regard.core.device import resolve_device
from regard.core.errors import RegardError
from regard.core.protocols import Decode
from regard.core.records.attention import AlignmentRecord
from regard.core.records.sound import SoundRecord
from regard.core.traits import traits_of
from regard.data.batching import Progress, evaluation_progress
from regard.data.dataset import Dataset, read_split
from regard.data.readers.arrays import ArrayReader
from regard.data.readers.text_file import RowErrors
from regard.data.splits import Split
from regard.data.tokenizers.vocabulary import UnknownTokens
from regard.models.generation.sampling import sample
from regard.runs.build import build_decoding, build_spec_model
from regard.runs.folder import RunFolder
from regard.runs.spec import RunSpec
from regard.runs.train import read_spec
from regard.tasks import task_class
from regard.tasks.task import device_of
from regard.training.checkpoint import load_parameters

PREDICT_BATCH = 512
# Attention to a picture: at most so many parts of its time, and so many output tokens.
MAX_PARTS, MAX_OUTPUTS = 100, 80
PROBE_FRAMES = 64  # enough for one position after any stem


class Example(NamedTuple):
    """One evaluated item."""

    input: str
    prediction: Any
    references: Any


@dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """Predictions and scores of a model on a file.

    `signatures` identify the exact definition of metrics that have several; `notes` are caveats.
    """

    inputs: tuple[str, ...]
    references: tuple[Any, ...]
    predictions: tuple[Any, ...]
    scores: dict[str, float]
    signatures: dict[str, str]
    units: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def examples(self, count: int, *, seed: int = 0) -> list[Example]:
        """A random sample of items, in file order."""
        drawn = random.Random(seed).sample(range(len(self.inputs)), min(count, len(self.inputs)))
        return [
            Example(self.inputs[row], self.predictions[row], self.references[row])
            for row in sorted(drawn)
        ]


class TrainedRun:
    """A trained model with its preprocessor, as returned by `load`."""

    def __init__(
        self, *, folder: RunFolder, spec: RunSpec, model: nn.Module, preprocessor: Any
    ) -> None:
        self.folder = folder
        self.spec = spec
        self.model = model
        self.preprocessor = preprocessor

    @property
    def record(self) -> dict[str, Any]:
        """The content of record.json of a finished run."""
        record: dict[str, Any] = self.folder.read_record()
        return record

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl."""
        rows: list[dict[str, Any]] = self.folder.read_jsonl(self.folder.metrics)
        return rows

    def predict(
        self,
        inputs: Iterable[Any] | str | PathLike[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
    ) -> list[Any]:
        """The prediction for each input; decoding options default to those of the spec.

        Inputs are texts; for a run on recordings or images the paths of files, clips or arrays, or the path
        of a .npz file.
        """
        if isinstance(inputs, str | PathLike):
            inputs = self._file_inputs(Path(inputs))
        return list(self.predict_each(inputs, beam_size=beam_size, length_penalty=length_penalty))

    def _file_inputs(self, path: Path) -> Iterator[Any]:
        kind = task_class(self.spec.task)
        if kind.input_kind == "tokens" or path.suffix != ".npz":
            what = "texts" if kind.input_kind == "tokens" else "files"
            raise RegardError(f"predict('{path}'): give a list of {what}, such as ['{path}'].")
        reader = (
            ArrayReader(path=path)
            if kind.input_kind == "frames"
            else kind.reader(self.spec.task_options, str(path))
        )
        return (row.input for row in reader.rows(errors=RowErrors()))

    def predict_each(
        self,
        inputs: Iterable[Any],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
    ) -> Iterator[Any]:
        """As `predict`, as an iterator, batch by batch; the output sequence for an empty text is empty."""
        predict = partial(
            task_class(self.spec.task).predict,
            self.model,
            preprocessor=self.preprocessor,
            decode=self._decoding(beam_size, length_penalty),
        )
        stream = iter(inputs)
        while block := list(islice(stream, PREDICT_BATCH)):
            batch = [each.strip() if isinstance(each, str) else each for each in block]
            if task_class(self.spec.task).target_kind != "sequence":
                yield from predict(batch)  # a text without words has a label or a number too
                continue
            # A clip or a path has no length.
            given = [each for each in batch if not isinstance(each, Sized) or len(each)]
            predictions = iter(predict(given))
            for each in batch:
                yield "" if isinstance(each, Sized) and not len(each) else next(predictions)

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
        vocabulary = self.preprocessor.target
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
        progress: Progress | None = None,
        **file_options: Any,
    ) -> EvaluationReport:
        """Predictions and scores on a file; malformed rows raise, unless `errors` collects them.

        `progress` receives the number of rows read, of how many, for each pass over them. `file_options`
        override the run's own options of its files: format, source_column, target_column, header,
        max_line_bytes.
        """
        kind = task_class(self.spec.task)
        options = self._options_for(file_options)
        split = kind.read_split(
            str(path),
            options,
            preprocessor=self.preprocessor,
            errors=RowErrors() if errors is None else errors,
        )
        task = kind(
            dataset=Dataset(preprocessor=self.preprocessor, validation=split),
            options=options,
            seed=self.spec.seed,
            decode=self._decoding(beam_size, length_penalty),
        )
        with torch.inference_mode(), evaluation_progress(progress):
            result = task.evaluate_on(self.model, split)
            details = task.details(self.model, split, result)
        unknown = UnknownTokens(self.preprocessor.input)
        unknown.add(split.inputs)
        return EvaluationReport(
            inputs=split.names,
            references=split.references,
            predictions=tuple(result.predictions),
            scores=result.scores,
            signatures=kind.signatures(options),
            units={metric.name: metric.unit for metric in kind.all_metrics(options)},
            details=details,
            notes=tuple(note for note in (*task.notes(split), unknown.describe()) if note),
        )

    def inputs(self, names: Iterable[str], *, split: Split) -> dict[str, Any]:
        """Inputs of a split by their names, read from the data of the run; a text is its own name."""
        kind, wanted = task_class(self.spec.task), list(names)
        if kind.input_kind == "tokens":
            return {name: name for name in wanted}
        options = self.spec.task_options
        found = read_split(self.preprocessor, options, kind.readers(options), split)
        known = dict(zip(found.names, found.inputs, strict=True))
        for name in wanted:
            if name not in known:
                raise RegardError(
                    f"'{name}' is not in the {split} split of '{options.train_file}' any more. Restore the "
                    "data of the run."
                )
        return {name: known[name] for name in wanted}

    def item(self, number: int) -> tuple[Any, str]:
        """An item of the test split, else of validation, by its number from 1; and its reference."""
        kind, options = task_class(self.spec.task), self.spec.task_options
        readers = kind.readers(options)
        splits: tuple[Split, ...] = ("test", "validation")
        for name in splits:
            split = read_split(self.preprocessor, options, readers, name)
            if len(split):
                break
        if not 1 <= number <= len(split):
            raise RegardError(
                f"item {number}: the {name} split of '{self.folder.path}' has the items 1 to {len(split)}. "
                "Choose one of them."
            )
        reference = split.references[number - 1]
        first = reference[0] if isinstance(reference, tuple) else reference
        return split.inputs[number - 1], str(first)

    def alignment(
        self,
        source: Any,
        *,
        name: str = "",
        beam_size: int | None = None,
        length_penalty: float | None = None,
    ) -> AlignmentRecord:
        """The cross-attention weights between one input and the output decoded for it.

        Of a recording, they are those of one head over equal parts of its time; `name` is what it is
        called. An input is as for `predict`.
        """
        given = source.strip() if isinstance(source, str) else source
        if isinstance(given, str) and not given:
            raise RegardError("The text is empty. Give at least one word.")
        encoded = self.preprocessor.encode_inputs([given]).collate_inputs(np.arange(1))
        encoded = encoded.to(device_of(self.model))
        title = name or str(given)
        picture = self.preprocessor.picture(given, name=title)
        assert picture is None or isinstance(picture, SoundRecord)
        decode: Any = self._decoding(beam_size, length_penalty)
        # Frames are many more than characters: an untrained decoder would not end.
        limit = {} if picture is None else {"max_length": MAX_OUTPUTS}
        tokens = decode(self.model, encoded, **limit)[0].tokens
        cross = self.source_weights(encoded, torch.tensor([[START, *tokens]]))
        if not cross:
            raise RegardError(
                f"The model of '{self.folder.path}' has no attention over its source. Train one with a "
                "mechanism: --set model.mechanism=additive."
            )
        if picture is None:
            sources = tuple(self.preprocessor.input.tokens_of(encoded.tokens[0].tolist()))
        else:
            cross = dict([self._best_head(cross)])
            sources = picture.column_names(next(iter(cross.values())).shape[-1])
        kept = None if picture is None else MAX_OUTPUTS
        output = self.preprocessor.target.decode(tokens)
        return AlignmentRecord(
            title=f"{title} → {output}",
            source_tokens=sources,
            output_tokens=tuple(self.preprocessor.target.tokens_of([*tokens, END]))[:kept],
            maps={
                name: tuple(tuple(map(tuple, head)) for head in values[0, :, :kept].tolist())
                for name, values in cross.items()
            },
            prediction=output,
            sound=picture,
        )

    def _best_head(self, cross: dict[str, Tensor]) -> tuple[str, Tensor]:
        """The head with the best alignments on validation, if it is known; else the mean of the last layer.

        Of many positions, neighbours are added.
        """
        details = self.record.get("details", {}) if self.folder.record.is_file() else {}
        known = [each["alignment"]["head"] for each in details.values() if "alignment" in each]
        name, _, head = (known or [""])[0].partition(", head ")
        if name in cross:
            best, values = known[0], cross[name][:, [int(head or 1) - 1]]
        else:
            best, values = list(cross.items())[-1]
            if values.shape[1] > 1:
                best = f"{best}, mean of {values.shape[1]} heads"
            values = values.mean(dim=1, keepdim=True)
        return best, added_parts(values, MAX_PARTS)

    @property
    def is_classifier(self) -> bool:
        """Whether the model is a text classifier."""
        kind = task_class(self.spec.task)
        return kind.target_kind == "class" and kind.input_kind == "tokens"

    def source_weights(
        self,
        source: Input,
        decoder_input: Int[Tensor, "batch target_length"],
    ) -> dict[str, Float[Tensor, "batch heads target_length source_length"]]:
        """All cross-attention weights by name; empty for a model without cross-attention.

        Row i belongs to the prediction of the token after `decoder_input[:, : i + 1]`, in both attention
        styles of a recurrent model; in Bahdanau style, the query has not yet seen `decoder_input[:, i]`.
        """
        model: Any = self.model
        device = device_of(model)
        with torch.inference_mode():
            weights: dict[str, Tensor] = model.weights(source.to(device), decoder_input.to(device))
        return {name: values for name, values in weights.items() if name.startswith("cross")}

    @property
    def has_cross_attention(self) -> bool:
        """Whether the model attends to a source sequence, a text or a recording."""
        kind = task_class(self.spec.task).input_kind
        if kind == "images" or "sequence" not in traits_of(type(self.model)).targets:
            return False
        source: Input = TokenInput(torch.tensor([[END]]), torch.tensor([1]))
        if kind != "tokens":
            if not self.preprocessor.has_pictures:
                return False
            zeros = torch.zeros(1, PROBE_FRAMES, len(self.preprocessor.input))
            source = FrameInput(zeros, torch.tensor([PROBE_FRAMES]))
        return bool(self.source_weights(source, torch.tensor([[START]])))

    def _options_for(self, file_options: dict[str, Any]) -> Any:
        """The task options of the run with `file_options` replaced."""
        options = self.spec.task_options
        for name, value in file_options.items():
            if name not in type(options).model_fields:
                raise RegardError(
                    f"{name}={value}: the task '{self.spec.task}' has no such option. Remove it."
                )
        return options.replace(**file_options)

    def _decoding(self, beam_size: int | None, length_penalty: float | None) -> Decode:
        return build_decoding(self.spec, beam_size=beam_size, length_penalty=length_penalty)


def added_parts(
    weights: Float[Tensor, "*rows positions"], maximum: int
) -> Float[Tensor, "*rows parts"]:
    """At most `maximum` positions: sums of neighbours.

    >>> added_parts(torch.tensor([0.5, 0.25, 0.25]), 2)
    tensor([0.7500, 0.2500])
    """
    count = weights.shape[-1]
    if count <= maximum:
        return weights
    part = torch.arange(count, device=weights.device) * maximum // count
    return weights.new_zeros(*weights.shape[:-1], maximum).index_add(-1, part, weights)


def load(run: str | PathLike[str], *, device: str | None = None) -> TrainedRun:
    """Load the trained model of a run folder, in evaluation mode.

    `device` is cpu, cuda, cuda:N, mps or auto; the default is torch's default device.
    """
    place = torch.get_default_device() if device is None else resolve_device(device)
    folder = RunFolder.existing(Path(run))
    folder.verify()
    spec = read_spec(folder, changed_plugins="warn")
    kind = task_class(spec.task).preprocessor_class
    preprocessor = kind.from_json(folder.read_json(folder.preprocessor), spec.task_options)
    with torch.device("cpu"):
        model = build_spec_model(spec, preprocessor)
        load_parameters(model, folder.model)
    model = model.to(place).eval()
    return TrainedRun(folder=folder, spec=spec, model=model, preprocessor=preprocessor)
