"""A pretrained Hugging Face model as a `LookSource`: language models, classifiers, encoders.

What a model writes is fed back to it, so that one forward pass has the attention of all of its tokens. As
of trained runs, logits are explained minus the mean of all logits at their position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.formatting import counted
from regard.core.records.look import Axis, LookRecord
from regard.core.registry import lookup
from regard.data.readers.text_file import RowErrors, TextFile, nonblank_lines
from regard.explain.faithfulness import faithfulness_curves
from regard.explain.look import Log, LookInput, Measured, silent
from regard.explain.look_parts import (
    NEW_TOKENS,
    axes_of,
    centred_logits,
    logits_of,
    most_probable,
    other_output_note,
    output_tokens,
)
from regard.explain.trace import Intervention, Trace
from regard.integrations.hugging_face import trace_hugging_face
from regard.integrations.pretrained import PretrainedModel
from regard.integrations.pretrained_removal import SCORES, PretrainedItem

# Texts that faithfulness is measured on; a language model needs half a minute for each.
ITEMS = 20
MAX_LINE_BYTES = 1_000_000

Inputs = dict[str, Tensor]
Logits = Callable[[], Float[Tensor, "rows outputs"]]


class PretrainedSource:
    """A pretrained model, as `regard.explain.look` takes it."""

    def __init__(self, pretrained: PretrainedModel) -> None:
        self.pretrained = pretrained
        self.name = pretrained.name

    @property
    def model(self) -> nn.Module:
        """The model of transformers."""
        model: nn.Module = self.pretrained.model
        return model

    @property
    def writes(self) -> bool:
        """Whether the model writes text."""
        return self.pretrained.head == "language_model"

    def trace(
        self, *, interventions: Iterable[Intervention] = (), hold: bool = False
    ) -> AbstractContextManager[Trace]:
        """The attention of the model."""
        return trace_hugging_face(self.model, interventions=interventions, hold=hold)

    def faithfulness(self, file: str | None = None, *, log: Log = silent) -> Measured:
        """Curves over the lines of a file, drawn at random; without one there is nothing to measure on."""
        if file is None:
            return Measured(
                note="not measured: a pretrained model has no validation split. --validation-file names a "
                "file of texts, one per line."
            )
        text_file = TextFile(path=Path(file), max_line_bytes=MAX_LINE_BYTES)
        texts = [text for _, text in nonblank_lines(text_file.lines(errors=RowErrors()))]
        log(f"measuring how faithful the methods are, on {counted(min(ITEMS, len(texts)), 'text')}")
        order = np.random.default_rng(0).permutation(len(texts))
        return Measured(
            faithfulness_curves(
                (PretrainedItem.of(self.pretrained, texts[number]) for number in order),
                items=ITEMS,
                score=SCORES[self.pretrained.head],
                data=file,
            )
        )

    def encode(
        self,
        value: Any,
        *,
        target: str | None = None,
        max_tokens: int | None = None,
        interventions: Sequence[Intervention] = (),
    ) -> LookInput:
        """Encode a text and predict for it."""
        if not isinstance(value, str):
            raise RegardError(
                f"{self.name} reads texts, and the input is a {type(value).__name__}. Give a text."
            )
        if max_tokens is not None and not self.writes:
            raise RegardError(
                f"--tokens {max_tokens}: {self.name} is an encoder; only language models write text. "
                "Remove it."
            )
        text, inputs = value.strip(), self.pretrained.encode(value.strip())
        with torch.no_grad():
            if self.writes:
                return self._written(text, inputs, target, max_tokens, interventions)
            encode = {
                "masked_language_model": self._filled,
                "classifier": self._classified,
                None: self._embedded,
            }[self.pretrained.head]
            return encode(text, inputs, target, interventions)

    def _written(
        self,
        text: str,
        inputs: Inputs,
        target: str | None,
        max_tokens: int | None,
        interventions: Sequence[Intervention],
    ) -> LookInput:
        """A text that is continued by a decoder, or answered by an encoder and a decoder."""
        limit = NEW_TOKENS if max_tokens is None else max_tokens
        if limit < 1:
            raise RegardError(f"--tokens {limit}: the number of new tokens is 1 or more.")
        with self.trace(interventions=interventions) if interventions else nullcontext():
            own = self.pretrained.generate(inputs, max_tokens=limit, use_cache=not interventions)
        labels = own if target is None else self._target_tokens(target)
        if not labels:
            raise RegardError(
                f"The text has {counted(inputs['input_ids'].shape[1], 'token')}, which leaves {self.name} "
                "no room to write. Give a shorter one."
            )
        given: list[int] = inputs["input_ids"][0].tolist()
        device, names = inputs["input_ids"].device, self.pretrained.token_texts
        if self.pretrained.kind == "decoder":
            before = len(given) - 1
            tokens = torch.tensor([[*given, *labels[:-1]]], device=device)
            fed = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
            axes = {"input": names(tokens[0].tolist())}
        else:
            before = 0
            start = self.pretrained.model.generation_config.decoder_start_token_id
            read = [start, *labels[:-1]]
            fed = {**inputs, "decoder_input_ids": torch.tensor([read], device=device)}
            axes = {"input": names(given), "output": names(labels), "decoder_input": names(read)}

        def logits() -> Float[Tensor, "rows outputs"]:
            return self.pretrained.forward(fed)[0, before:]

        label_ids = torch.tensor(labels, device=device)
        decode = partial(self.pretrained.tokenizer.decode, skip_special_tokens=True)
        explained = decode(labels)
        return self._input(
            text,
            axes,
            logits,
            label_ids,
            interventions,
            prediction=decode(own),
            explained=explained,
            notes=() if labels == own else (other_output_note(explained),),
        )

    def _filled(
        self,
        text: str,
        inputs: Inputs,
        target: str | None,
        interventions: Sequence[Intervention],
    ) -> LookInput:
        """The most probable token at each mask; without one, every token is explained."""
        tokens, tokenizer = inputs["input_ids"][0], self.pretrained.tokenizer
        positions = (tokens == tokenizer.mask_token_id).nonzero()[:, 0]
        mask = tokenizer.mask_token
        notes: tuple[str, ...] = ()
        if not len(positions):
            notes = (
                f"There is no {mask} in the text: the scores of all of its tokens are explained.",
            )
            special = torch.tensor(tokenizer.all_special_ids, device=tokens.device)
            positions = (~torch.isin(tokens, special)).nonzero()[:, 0]

        def logits() -> Float[Tensor, "rows outputs"]:
            return self.pretrained.forward(inputs)[0, positions]

        with self.trace(interventions=interventions):
            own = logits().argmax(dim=-1)
        labels = tokens[positions] if notes else own
        if target is not None:
            chosen = self._target_tokens(target)
            if len(chosen) != 1 or notes:
                raise RegardError(
                    f"--target {target}: it replaces each {mask} of the text, so it must be one token, "
                    f"and is {counted(len(chosen), 'token')}. Choose another word, or add {mask}."
                )
            labels = torch.full_like(labels, chosen[0])
        filled = tokens.clone()
        filled[positions] = own
        return self._input(
            text,
            {"input": self.pretrained.token_texts(tokens.tolist())},
            logits,
            labels,
            interventions,
            prediction=tokenizer.decode(filled, skip_special_tokens=True),
            explained=" ".join(self.pretrained.token_texts(labels.tolist())),
            notes=notes,
        )

    def _classified(
        self,
        text: str,
        inputs: Inputs,
        target: str | None,
        interventions: Sequence[Intervention],
    ) -> LookInput:
        """A label."""
        names = self.pretrained.model.config.id2label
        numbers = {str(names.get(number, number)): number for number in range(len(names))}
        labels = list(numbers)

        def logits() -> Float[Tensor, "rows outputs"]:
            return self.pretrained.forward(inputs)

        with self.trace(interventions=interventions):
            found = logits()[0]
        number = int(found.argmax()) if target is None else lookup("label", target, numbers)
        return self._input(
            text,
            {"input": self.pretrained.token_texts(inputs["input_ids"][0].tolist())},
            logits,
            torch.tensor([number], device=found.device),
            interventions,
            prediction=labels[int(found.argmax())],
            explained=labels[number],
            probabilities=dict(zip(labels, found.softmax(dim=-1).tolist(), strict=True)),
        )

    def _embedded(
        self,
        text: str,
        inputs: Inputs,
        target: str | None,
        interventions: Sequence[Intervention],
    ) -> LookInput:
        """The mean of the last hidden states: a model without a head predicts nothing."""
        if target is not None:
            raise RegardError(
                f"--target {target}: {self.name} has no head that predicts something. Remove it."
            )

        def score() -> Float[Tensor, ""]:
            mean = self.pretrained.forward(inputs)[0].mean(dim=0)
            # Linear, with the value of the squared norm: its direction is held constant.
            return mean @ mean.detach()

        with self.trace(interventions=interventions):
            score()
        record = self._record(
            text,
            {"input": self.pretrained.token_texts(inputs["input_ids"][0].tolist())},
            target="squared norm of the mean embedding, with its direction held constant",
            notes=(
                f"{self.name} has no head that predicts something: what is explained is the length of "
                "its embedding of the text, the mean of the last hidden states.",
            ),
        )
        return LookInput(record=record, score=score, axes_of=partial(axes_of, axes=record.axes))

    # Parts of the record

    def _input(
        self,
        text: str,
        axes: dict[str, tuple[str, ...]],
        logits: Logits,
        labels: Tensor,
        interventions: Sequence[Intervention],
        *,
        explained: str,
        probabilities: dict[str, float] | None = None,
        **views: Any,
    ) -> LookInput:
        """The record of what the logits say of the labels, one per row."""
        if probabilities is None:
            with self.trace(interventions=interventions):
                likely = logits().log_softmax(dim=-1)
            own = likely.gather(1, labels[:, None])[:, 0].tolist()
            names = self.pretrained.token_texts(labels.tolist())
            views["output_tokens"] = output_tokens(names, own)
            probabilities = most_probable(likely[0].exp(), self.pretrained.token_texts)
        record = self._record(
            text, axes, target=logits_of(explained), probabilities=probabilities, **views
        )
        return LookInput(
            record=record,
            score=lambda: centred_logits(logits(), labels),
            axes_of=partial(axes_of, axes=record.axes),
        )

    def _record(self, text: str, axes: dict[str, tuple[str, ...]], **views: Any) -> LookRecord:
        config = self.pretrained.model.config
        return LookRecord(
            title=text,
            model=self.name,
            description=f"{type(self.model).__name__}, {counted(config.num_hidden_layers, 'layer')} of "
            f"{counted(config.num_attention_heads, 'head')}",
            axes={name: Axis(tokens=tokens) for name, tokens in axes.items()},
            **views,
        )

    def _target_tokens(self, target: str) -> list[int]:
        ids: list[int] = self.pretrained.tokenizer(target, add_special_tokens=False)["input_ids"]
        if not ids:
            raise RegardError(f"--target {target!r} has no token. Give at least one word.")
        return ids
