"""Removing parts of an input of a trained run, and what becomes of its output.

    item = run_item(run, "a dull film")
    item.units                                5: what can be removed, such as words
    item.importance(["weights"])              one number per unit
    item.scores([np.array([0, 2])])           of the input with units 0 and 2 only

    input    unit                             removed                score
    text     a token, no START or END         what follows moves up  classes: probability of the predicted
    frames   the frames of one position of    the mean frame of the  label; numbers: minus its change;
             the stem                         input                  sequences: mean log-probability of
    image    a patch of the stem's grid       the mean colour of it  the predicted tokens, END included

Of a language model, the input is a part of a text, and the output its most probable continuation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

from regard.core.batches import (
    END,
    PAD,
    START,
    FrameInput,
    ImageInput,
    Input,
    SequenceTarget,
    TokenInput,
)
from regard.core.errors import RegardError
from regard.core.protocols import is_autoregressive, text_attention
from regard.explain.attribution import input_importance
from regard.explain.look_parts import centred
from regard.models.generation.sampling import sample
from regard.models.stems import grid_of
from regard.runs.build import build_decoding
from regard.runs.load import MAX_OUTPUTS, TrainedRun
from regard.tasks import task_class
from regard.tasks.classification.deletion import EVAL_BATCH_TOKENS, score_subsets, word_mask
from regard.tasks.task import device_of

# Of a language model: tokens that may be removed, and tokens that it continues them with.
MAX_CONTEXT, CONTINUATION = 64, 8
IMAGE_BATCH = 256

Units = Int64[np.ndarray, " _"]


@runtime_checkable
class Removable(Protocol):
    """An input whose parts can be removed."""

    @property
    def units(self) -> int:
        """The number of parts."""
        ...

    def importance(self, methods: Sequence[str]) -> dict[str, Float[np.ndarray, " units"]]:
        """How important each part is, by method; without those that the model has no layer for."""
        ...

    def scores(self, kept: Sequence[Units]) -> Float[np.ndarray, " subsets"]:
        """The score of the output for the unchanged input, of inputs with some of the parts."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class RunItem:
    """An input of a trained run (`Removable`).

    input       a batch of one
    positions   the position of each unit in what the model reads: tokens, or vectors of its stem
    explain     the explained output: a logit minus the mean of all, or a sum of such; the predicted number
    score       the score of every row of a batch
    length      of what attention layers read, if it is known
    """

    model: Any
    input: Input
    positions: Callable[[int], Units]
    units: int
    explain: Callable[[], Float[Tensor, "*batch"]]
    score: Callable[[Any], Float[Tensor, " rows"]]
    length: int | None = None

    def importance(self, methods: Sequence[str]) -> dict[str, Float[np.ndarray, " units"]]:
        """By `input_importance`; hierarchical models have the weights of `text_attention`."""
        found = input_importance(self.model, self.explain, length=self.length, methods=methods)
        if "weights" in methods and "weights" not in found and isinstance(self.input, TokenInput):
            with torch.inference_mode():
                attention = text_attention(self.model, self.input)
            if attention is not None:
                numbers = self.input.segments
                numbers = torch.zeros_like(self.input.tokens) if numbers is None else numbers
                found = {"weights": attention.importance(numbers), **found}
        return {
            name: values[0].numpy(force=True).astype(np.float64)[self.positions(values.shape[1])]
            for name, values in found.items()
        }

    def scores(self, kept: Sequence[Units]) -> Float[np.ndarray, " subsets"]:
        """Batch by batch."""
        score = partial(_as_numpy, self.score)
        if isinstance(self.input, TokenInput):
            positions = self.positions(self.input.shape[1])
            always = np.setdiff1d(np.arange(self.input.shape[1]), positions)
            subsets = [np.sort(np.concatenate([always, positions[units]])) for units in kept]
            return score_subsets(score, self.input, rows=[0] * len(kept), kept=subsets)
        return np.concatenate([score(batch) for batch in self._filled(kept)])

    def _filled(self, kept: Sequence[Units]) -> Iterator[FrameInput | ImageInput]:
        """Batches of copies of the input, whose other units are its mean."""
        assert not isinstance(self.input, TokenInput)
        is_image = isinstance(self.input, ImageInput)
        x = self.input.pixels if isinstance(self.input, ImageInput) else self.input.frames
        owner = self._owners(x)
        size = IMAGE_BATCH if is_image else max(1, EVAL_BATCH_TOKENS // x.shape[1])
        mean = x.mean(dim=(2, 3) if is_image else 1, keepdim=True)
        for start in range(0, len(kept), size):
            chosen = kept[start : start + size]
            is_kept = torch.zeros(len(chosen), self.units, dtype=torch.bool)
            for row, units in enumerate(chosen):
                is_kept[row, torch.from_numpy(np.asarray(units))] = True
            keep = is_kept[:, owner].to(x.device)
            filled = torch.where(keep[:, None] if is_image else keep[:, :, None], x, mean)
            if isinstance(self.input, ImageInput):
                yield ImageInput(filled)
            else:
                yield FrameInput(filled, self.input.lengths.expand(len(chosen)))

    def _owners(self, x: Tensor) -> Int[Tensor, "..."]:
        """The unit of every frame (length), or of every pixel (height, width)."""
        if x.ndim == 3:
            return torch.arange(x.shape[1]) * self.units // x.shape[1]
        rows, columns = _grid(self.model)
        height, width = x.shape[2:]
        row = torch.arange(height) * rows // height
        return row[:, None] * columns + torch.arange(width) * columns // width


def _as_numpy(
    score: Callable[[Any], Float[Tensor, " rows"]], batch: Any
) -> Float[np.ndarray, " rows"]:
    with torch.inference_mode():
        return score(batch).double().numpy(force=True)


def _grid(model: Any) -> tuple[int, int]:
    """The rows and columns of patches that the stem of a model has."""
    found = next((grid for each in model.modules() if (grid := grid_of(each))), None)
    if found is None:
        raise RegardError(
            f"{type(model).__name__} has no grid of patches, so that parts of an image have no importance. "
            "Use a model with attention over patches, such as vision_transformer."
        )
    return found


def run_item(run: TrainedRun, value: Any) -> RunItem:
    """An input of a run: a text, a recording or an image, as for `run.predict`."""
    kind = task_class(run.spec.task)
    if kind.is_generative:
        return _continued(run, value)
    encoded = run.preprocessor.encode_inputs([value]).collate_inputs(np.arange(1))
    encoded = encoded.to(device_of(run.model))
    outputs = {"class": _label, "value": _number, "sequence": _sequence}
    if kind.target_kind not in outputs:
        raise RegardError(
            f"The run '{run.folder.path}' has the task '{run.spec.task}', which predicts no label, number "
            "or sequence from a whole input. Faithfulness is measured for those."
        )
    explain, score = outputs[kind.target_kind](run, encoded)
    return _item(run.model, encoded, explain, score)


Output = tuple[Callable[[], Tensor], Callable[[Any], Tensor]]


def _item(
    model: Any, encoded: Input, explain: Callable[[], Tensor], score: Callable[[Any], Tensor]
) -> RunItem:
    """The units of an input: words, patches, or positions of the stem."""
    length = None
    if isinstance(encoded, TokenInput):
        length = encoded.shape[1]
        words = np.flatnonzero(word_mask(encoded)[0])
        units, positions = len(words), lambda _: words
    elif isinstance(encoded, ImageInput):
        rows, columns = _grid(model)
        units = rows * columns
        # A class token is first.
        positions = lambda length: np.arange(length - units, length)  # noqa: E731
    else:
        units = _stem_length(model, encoded)
        positions = np.arange
    return RunItem(
        model=model,
        input=encoded,
        positions=positions,
        units=units,
        explain=explain,
        score=score,
        length=length,
    )


def _stem_length(model: Any, encoded: Input) -> int:
    """The number of vectors that the stem of a model makes of an input."""
    stem = getattr(model, "stem", None) or getattr(model, "embedding", None)
    if stem is None:
        return encoded.shape[1]
    with torch.inference_mode():
        lengths: Tensor = stem(encoded).lengths
    return int(lengths)


def _label(run: TrainedRun, encoded: Input) -> Output:
    model: Any = run.model
    with torch.no_grad():
        label = model.classify(encoded).logits.argmax(dim=-1)

    def probability(batch: Any) -> Tensor:
        found: Tensor = model.classify(batch).logits.float().softmax(dim=-1)[:, int(label)]
        return found

    return lambda: centred(model.classify(encoded).logits, label), probability


def _number(run: TrainedRun, encoded: Input) -> Output:
    model: Any = run.model
    with torch.inference_mode():
        number = float(model.classify(encoded).logits)

    def closeness(batch: Any) -> Tensor:
        found: Tensor = -(model.classify(batch).logits[:, 0] - number).abs()
        return found

    return lambda: model.classify(encoded).logits[:, 0], closeness


def _sequence(run: TrainedRun, encoded: Input) -> Output:
    model: Any = run.model
    decode: Any = build_decoding(run.spec)
    # Frames are many more than characters: an untrained decoder would not end.
    limit = {} if isinstance(encoded, TokenInput) else {"max_length": MAX_OUTPUTS}
    tokens = torch.tensor([[START, *decode(model, encoded, **limit)[0].tokens, END]])
    tokens = tokens.to(encoded.device)
    if not is_autoregressive(model):
        return _aligned(model, encoded, tokens)
    given, labels = tokens[:, :-1], tokens[:, 1:]

    def explain() -> Tensor:
        return centred(model.logits(model.hidden(encoded, given)), labels).sum()

    def likelihood(batch: Any) -> Tensor:
        rows = batch.shape[0]
        logits = model.logits(model.hidden(batch, given.expand(rows, -1))).float()
        found: Tensor = logits.log_softmax(dim=-1).gather(2, labels.expand(rows, -1)[..., None])
        return found.mean(dim=(1, 2))

    return explain, likelihood


def _aligned(model: Any, encoded: Input, tokens: Int[Tensor, "1 length"]) -> Output:
    """Of CTC: the log-likelihood of the tokens, over all of their alignments."""

    def likelihood(batch: Any) -> Tensor:
        rows = batch.shape[0]
        lengths = torch.full((rows,), tokens.shape[1], device=tokens.device)
        target = SequenceTarget(tokens.expand(rows, -1), lengths)
        found: Tensor = -model.output.losses(model.encode(batch), target)
        return found / (tokens.shape[1] - 1)

    return lambda: likelihood(encoded).sum(), likelihood


def _continued(run: TrainedRun, text: str) -> RunItem:
    """The most probable continuation of a part of a text."""
    model: Any = run.model
    device = device_of(model)
    nothing = TokenInput(torch.tensor([[END]]), torch.tensor([1])).to(device)
    most = model.target_limits(nothing)
    room = MAX_CONTEXT if most is None else max(1, int(most) - CONTINUATION)
    context = run.preprocessor.target.encode(text)[: min(MAX_CONTEXT, room)]
    found = list(sample(model, tuple(context), max_tokens=CONTINUATION, temperature=0.0))
    found = found if len(found) == CONTINUATION else [*found, END]
    labels = torch.tensor([found], device=device)
    tokens = torch.tensor([[START, *context]], device=device)
    whole = TokenInput(tokens, torch.tensor([tokens.shape[1]], device=device))

    def logits(batch: TokenInput) -> Tensor:
        """The logits of the continuation after each row, which may be padded."""
        rows, longest = batch.tokens.shape
        steps = torch.arange(len(found) - 1, device=device)
        given = torch.full((rows, longest + len(steps)), PAD, device=device)
        given[:, :longest] = batch.tokens
        given.scatter_(1, batch.lengths[:, None] + steps, labels[:, :-1].expand(rows, -1))
        source = nothing.select(torch.zeros(rows, dtype=torch.long, device=device))
        last = batch.lengths[:, None] - 1 + torch.arange(len(found), device=device)
        hidden = model.hidden(source, given)
        hidden = hidden.gather(1, last[..., None].expand(-1, -1, hidden.shape[2]))
        after: Tensor = model.logits(hidden)
        return after

    def likelihood(batch: TokenInput) -> Tensor:
        rows = batch.shape[0]
        likely = logits(batch).float().log_softmax(dim=-1)
        return likely.gather(2, labels.expand(rows, -1)[..., None]).mean(dim=(1, 2))

    item = _item(model, whole, lambda: centred(logits(whole), labels).sum(), likelihood)
    # The attention layers read the continuation too.
    return replace(item, length=whole.shape[1] + len(found) - 1)
