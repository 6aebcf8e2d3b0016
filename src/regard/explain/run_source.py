"""A trained run as a `LookSource`: translation and recognition, language models, classifiers of any input.

What a model writes is fed back to it (teacher forcing), so that one forward pass has the attention of all
of its tokens. The explained score is a sum of logits, each minus the mean of the logits at its position:
it does not change if a number is added to all logits, as a probability does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.batches import END, START, UNKNOWN, Input, TokenInput
from regard.core.errors import RegardError
from regard.core.formatting import counted, integer_text, number_text
from regard.core.protocols import is_autoregressive, text_attention
from regard.core.records.look import Axis, LookRecord
from regard.core.records.sound import SoundRecord
from regard.core.registry import lookup
from regard.core.traits import traits_of
from regard.data.tokenizers.subword import MASK, MASK_ID
from regard.data.tokenizers.vocabulary import UnknownTokens
from regard.explain.faithfulness import measure_faithfulness, read_faithfulness
from regard.explain.look import MAX_POSITIONS, Log, LookInput, Measured, silent
from regard.explain.look_parts import (
    NEW_TOKENS,
    axes_of,
    centred_logits,
    logits_of,
    most_probable,
    numbered_axis,
    other_output_note,
    output_tokens,
)
from regard.explain.media_classifier import explain_image
from regard.explain.text_classifier import builds_trees, explain_text, parse_tree
from regard.explain.trace import Intervention, Trace, trace_attention
from regard.models.generation.sampling import FORBIDDEN_TOKENS, sample
from regard.models.stems import grid_of
from regard.runs.build import build_decoding
from regard.runs.load import TrainedRun
from regard.tasks import task_class
from regard.tasks.task import device_of


class _Forward(NamedTuple):
    """A forward pass: what predicts, and what is predicted at each row of the logits."""

    logits: Callable[[], Float[Tensor, "rows outputs"]]
    labels: Int[Tensor, " rows"]

    def score(self) -> Float[Tensor, ""]:
        """The sum of the logits of the labels, each minus the mean of its row."""
        return centred_logits(self.logits(), self.labels)


class RunSource:
    """A trained run, as `regard.explain.look` takes it."""

    def __init__(self, run: TrainedRun, *, name: str = "") -> None:
        self.run = run
        self.name = name or str(run.folder.path)
        self._kind = task_class(run.spec.task)
        self._is_packed = traits_of(type(run.model)).is_decoder_only

    @property
    def model(self) -> nn.Module:
        """The model of the run."""
        return self.run.model

    @property
    def writes(self) -> bool:
        """Whether the model writes text."""
        return self._kind.target_kind == "sequence"

    def trace(
        self, *, interventions: Iterable[Intervention] = (), hold: bool = False
    ) -> AbstractContextManager[Trace]:
        """The attention of the model."""
        return trace_attention(self.model, interventions=interventions, hold=hold)

    def faithfulness(self, file: str | None = None, *, log: Log = silent) -> Measured:
        """The curves of the run, measured on its validation split once, or on a file."""
        if file is not None or read_faithfulness(self.run) is None:
            what = "the validation split, once for this run" if file is None else file
            log(f"measuring how faithful the methods are, on {what}")
        try:
            return Measured(measure_faithfulness(self.run, file=file))
        except RegardError as error:
            if file is not None:
                raise
            return Measured(note=str(error))

    def encode(
        self,
        value: Any,
        *,
        target: str | None = None,
        max_tokens: int | None = None,
        interventions: Sequence[Intervention] = (),
    ) -> LookInput:
        """Encode a text, a recording or an image and predict for it."""
        if max_tokens is not None and not self._kind.is_generative:
            raise RegardError(
                f"--tokens {max_tokens}: the run '{self.name}' was trained on the task "
                f"'{self.run.spec.task}'; only language models continue a text. Remove it."
            )
        given = value.strip() if isinstance(value, str) else value
        if isinstance(given, str) and not given and not self._kind.is_generative:
            raise RegardError("The text is empty. Give at least one word.")
        options: dict[str, Any] = {"target": target, "interventions": tuple(interventions)}
        if self._kind.is_generative:
            return self._continued(given, max_tokens=max_tokens, **options)
        encoded = self.run.preprocessor.encode_inputs([given]).collate_inputs(np.arange(1))
        encoded = encoded.to(device_of(self.model))
        encode = {
            "sequence": self._written,
            "positions": self._filled,
            "class": self._classified,
            "value": self._classified,
        }[self._kind.target_kind]
        found = encode(given, encoded, **options)
        notes = [*found.record.notes, *self._notes(given)]
        return replace(found, record=replace(found.record, notes=tuple(notes)))

    # Kinds of tasks

    def _classified(
        self, value: Any, encoded: Input, *, target: str | None, interventions: Any
    ) -> LookInput:
        """A label, or a number."""
        model: Any = self.model
        with torch.inference_mode(), self.trace(interventions=interventions) as trace:
            output = model.classify(encoded).logits[0].float()
        labels: tuple[str, ...] = getattr(self.run.preprocessor.target, "labels", ())
        views: dict[str, Any] = {}
        if labels:
            number = int(output.argmax())
            views["prediction"] = labels[number]
            probabilities = output.softmax(dim=-1).tolist()
            views["probabilities"] = dict(zip(labels, probabilities, strict=True))
            if target is not None:
                number = lookup("label", target, dict(zip(labels, range(len(labels)), strict=True)))
            views["target"] = f"logit of '{labels[number]}', minus the mean of all logits"
        else:
            if target is not None:
                raise RegardError(f"--target {target}: the model predicts a number. Remove it.")
            number = 0
            (decoded,) = self.run.preprocessor.target.decode(output.cpu().numpy()).tolist()
            views["prediction"] = number_text(decoded)
            views["target"] = "predicted number, standardised"
        if not interventions:
            views |= self._classifier_views(value, encoded)
        forward = _Forward(
            lambda: model.classify(encoded).logits, torch.tensor([number], device=output.device)
        )
        return self._input(value, encoded, trace, forward, **views)

    def _classifier_views(self, value: Any, encoded: Input) -> dict[str, Any]:
        """The document, tree, image or sound of a classifier's input."""
        run = self.run
        if self._kind.input_kind == "images":
            return {"image": explain_image(run, value, name=self._title(value))}
        if self._kind.input_kind == "frames" or not run.is_classifier:
            return {}
        if builds_trees(run):
            return {"tree": parse_tree(run, value)}
        with torch.inference_mode():
            has_attention = text_attention(self.model, encoded) is not None
        if not has_attention:
            return {}
        document = explain_text(run, value)
        return {"document": document, "importance": {"weights": document.importance()}}

    def _written(
        self, value: Any, encoded: Input, *, target: str | None, interventions: Any
    ) -> LookInput:
        """An output sequence."""
        vocabulary = self.run.preprocessor.target
        own = tokens = self._decoded(encoded, interventions)
        if target is not None:
            tokens = tuple(vocabulary.encode(target.strip()))
        options: dict[str, Any] = {
            "prediction": vocabulary.decode(own),
            "interventions": interventions,
        }
        if tokens != own:
            options["notes"] = (other_output_note(vocabulary.decode(tokens)),)
        if not is_autoregressive(self.model):
            return self._aligned(value, encoded, tokens, **options)
        return self._forced(value, encoded, (), (*tokens, END), **options)

    def _decoded(self, encoded: Input, interventions: Any) -> tuple[int, ...]:
        """The output as `predict` decodes it; with interventions, from the whole prefix for every token."""
        decode: Any = build_decoding(self.run.spec)
        limit = getattr(self.run.preprocessor.options, "max_characters", None)
        limited = {} if limit is None else {"max_length": limit + 1}
        with self.trace(interventions=interventions) if interventions else nullcontext():
            (found,) = decode(self.model, encoded, use_cache=not interventions, **limited)
        tokens: tuple[int, ...] = found.tokens
        return tokens

    def _aligned(
        self,
        value: Any,
        encoded: Input,
        tokens: Sequence[int],
        *,
        interventions: Any,
        **views: Any,
    ) -> LookInput:
        """The output of CTC: each token is explained where it is most probable on the best path."""
        model: Any = self.model
        vocabulary = self.run.preprocessor.target
        decoder_input = torch.tensor([[START, *tokens]], device=encoded.device)
        with torch.inference_mode(), self.trace(interventions=interventions) as trace:
            scores = model(encoded)[0]
            aligned = model.align(encoded, decoder_input).tokens[0]
        positions = []
        for number, token in enumerate(tokens):
            own = (aligned == number).nonzero()[:, 0]
            positions += [int(own[scores[own, token].argmax()])] if len(own) else []
        labels = torch.tensor(tokens[: len(positions)], dtype=torch.long, device=encoded.device)
        # The output layer has no START and END.
        forward = _Forward(
            lambda: model.output(model.encode(encoded).frames)[0, positions], labels - END
        )
        likely = scores[positions].gather(1, labels[:, None])[:, 0].tolist()
        names = vocabulary.tokens_of(labels.tolist())
        return self._input(
            value,
            encoded,
            trace,
            forward,
            target=logits_of(vocabulary.decode(tokens)),
            output_tokens=output_tokens(names, likely),
            **self._alignment(value, interventions),
            **views,
        )

    def _forced(
        self,
        value: Any,
        source: Input,
        before: Sequence[int],
        labels: Sequence[int],
        *,
        interventions: Any,
        **views: Any,
    ) -> LookInput:
        """The tokens `labels`, which are predicted after START and the tokens `before`."""
        model: Any = self.model
        vocabulary = self.run.preprocessor.target
        decoder_input = torch.tensor([[START, *before, *labels[:-1]]], device=source.device)

        def logits() -> Float[Tensor, "rows outputs"]:
            found: Tensor = model.logits(model.hidden(source, decoder_input)[0, len(before) :])
            return found

        with torch.inference_mode(), self.trace(interventions=interventions) as trace:
            log_probabilities = logits().float().log_softmax(dim=-1)
        label_ids = torch.tensor(labels, device=source.device)
        likely = log_probabilities.gather(1, label_ids[:, None])[:, 0].tolist()
        names = vocabulary.tokens_of(labels)
        views["target"] = logits_of(vocabulary.decode(labels))
        if self._kind.is_generative:
            views["probabilities"] = most_probable(log_probabilities[0].exp(), vocabulary.tokens_of)
        else:
            views |= self._alignment(value, interventions)
        return self._input(
            value,
            source,
            trace,
            _Forward(logits, label_ids),
            decoder_input=vocabulary.tokens_of(decoder_input[0].tolist()),
            output=[*vocabulary.tokens_of(before), *names],
            output_tokens=output_tokens(names, likely),
            **views,
        )

    def _continued(
        self, text: str, *, target: str | None, max_tokens: int | None, interventions: Any
    ) -> LookInput:
        """A text that a language model continues."""
        vocabulary = self.run.preprocessor.target
        prompt = vocabulary.encode(text)
        source = TokenInput(torch.tensor([[END]]), torch.tensor([1])).to(device_of(self.model))
        limit = NEW_TOKENS if max_tokens is None else max_tokens
        if limit < 1:
            raise RegardError(f"--tokens {limit}: the number of new tokens is 1 or more.")
        if limit + len(prompt) > MAX_POSITIONS:
            # Before a text is written that cannot be shown.
            raise RegardError(
                f"--tokens {limit}: the text and its continuation have at most "
                f"{integer_text(MAX_POSITIONS)} tokens. Ask for fewer."
            )
        if interventions or not self._is_packed:
            own = self._greedy(source, prompt, limit, interventions)
        else:
            own = list(sample(self.model, tuple(prompt), max_tokens=limit, temperature=0.0))
            if len(own) < min(limit, self._room(source, prompt)):
                own.append(END)
        options: dict[str, Any] = {"interventions": interventions}
        labels = own if target is None else vocabulary.encode(target)
        if not labels:
            raise RegardError(
                f"--target {target!r}: the continuation is empty. Give at least one token."
            )
        if labels != own:
            options["notes"] = (other_output_note(vocabulary.decode(labels)),)
        before = len(vocabulary.decode(prompt))
        prediction = vocabulary.decode([*prompt, *own])[before:]
        found = self._forced(text, source, prompt, labels, prediction=prediction, **options)
        notes = [*found.record.notes, *self._notes(text)]
        return replace(found, record=replace(found.record, notes=tuple(notes)))

    def _room(self, source: TokenInput, prompt: Sequence[int]) -> float:
        """How many tokens the model can write after a prompt."""
        model: Any = self.model
        most = model.target_limits(source)
        return float("inf") if most is None else int(most) - len(prompt)

    def _greedy(
        self, source: TokenInput, prompt: Sequence[int], limit: int, interventions: Any
    ) -> list[int]:
        """The most probable continuation, from the whole prefix for every token; END included."""
        model: Any = self.model
        found: list[int] = []
        while len(found) < min(limit, max(1, self._room(source, prompt))):
            decoder_input = torch.tensor([[START, *prompt, *found]], device=source.device)
            with torch.inference_mode(), self.trace(interventions=interventions):
                logits = model.logits(model.hidden(source, decoder_input)[0, -1])
                logits[list(FORBIDDEN_TOKENS)] = -torch.inf
            found.append(int(logits.argmax()))
            if found[-1] == END:
                break
        return found

    def _filled(
        self, text: str, encoded: TokenInput, *, target: str | None, interventions: Any
    ) -> LookInput:
        """The most probable token at each [MASK]; without one, every token is explained."""
        model: Any = self.model
        vocabulary = self.run.preprocessor.input
        tokens = encoded.tokens[0]
        positions = (tokens == MASK_ID).nonzero()[:, 0]
        notes = []
        if not len(positions):
            notes = [
                f"There is no {MASK} in the text: the scores of all of its tokens are explained."
            ]
            positions = (tokens > UNKNOWN).nonzero()[:, 0]

        def logits() -> Float[Tensor, "rows outputs"]:
            found: Tensor = model.token_logits(model.hidden(encoded)[0, positions])
            return found

        with torch.inference_mode(), self.trace(interventions=interventions) as trace:
            found = logits().float()
        labels = (
            tokens[positions] if notes else found[:, MASK_ID + 1 :].argmax(dim=-1) + MASK_ID + 1
        )
        if target is not None:
            own = vocabulary.encode(target)
            if len(own) != 1 or notes:
                raise RegardError(
                    f"--target {target}: it replaces each {MASK} of the text, so it must be one token, "
                    f"and is {counted(len(own), 'token')}. Choose another word, or add {MASK}."
                )
            labels = torch.full_like(labels, own[0])
        log_probabilities = found.log_softmax(dim=-1)
        likely = log_probabilities.gather(1, labels[:, None])[:, 0].tolist()
        filled = tokens.clone()
        filled[positions] = labels
        names = vocabulary.tokens_of(labels.tolist())
        return self._input(
            text,
            encoded,
            trace,
            _Forward(logits, labels),
            prediction=vocabulary.decode(filled.tolist()),
            probabilities={}
            if notes
            else most_probable(log_probabilities[0].exp(), vocabulary.tokens_of),
            target=logits_of(" ".join(names)),
            output_tokens=output_tokens(names, likely),
            notes=tuple(notes),
        )

    # Parts of the record

    def _input(
        self,
        value: Any,
        encoded: Input,
        trace: Trace,
        forward: _Forward,
        *,
        decoder_input: Sequence[str] = (),
        output: Sequence[str] = (),
        **views: Any,
    ) -> LookInput:
        """The record of an input, with the axes of the attention that was traced."""
        title = self._title(value)
        picture = None
        if self._kind.input_kind == "frames":
            picture = self.run.preprocessor.picture(value, name=title)
            views["sound"] = picture
        if self._is_packed:
            # The source's END is not processed.
            source = self._tokens(encoded)[:-1]
            axes = {"input": Axis(tokens=(*source, *decoder_input))}
        else:
            axes = {"input": self._input_axis(encoded, trace, picture)}
            if decoder_input:
                axes["output"] = Axis(tokens=tuple(output))
                axes["decoder_input"] = Axis(tokens=tuple(decoder_input))
        for call in trace:
            if call.role == "pooling":
                axes["hops"] = numbered_axis("hop", call.num_queries)
                if call.num_keys != len(axes["input"].tokens):  # the upper level of a hierarchy
                    axes["sentences"] = numbered_axis("sentence", call.num_keys)
        record = LookRecord(
            title=title,
            model=self.name,
            description=self._description(),
            axes=axes,
            **views,
        )
        return LookInput(
            record=record,
            score=forward.score,
            axes_of=partial(axes_of, axes=axes),
        )

    def _input_axis(self, encoded: Input, trace: Trace, picture: Any) -> Axis:
        """The positions of the stem."""
        if isinstance(encoded, TokenInput):
            return Axis(tokens=tuple(self._tokens(encoded)))
        sizes = [call.value.shape[2] for call in trace if call.role != "self" or not call.is_causal]
        if not sizes:
            return Axis(tokens=("input",))
        count = sizes[0]
        if isinstance(picture, SoundRecord):
            return Axis(tokens=picture.column_names(count))
        grid = next((grid for each in self.model.modules() if (grid := grid_of(each))), None)
        if grid is None:
            return Axis(tokens=tuple(str(number + 1) for number in range(count)))
        prefix = count - grid[0] * grid[1]
        patches = [
            f"row {row + 1}, column {column + 1}"
            for row in range(grid[0])
            for column in range(grid[1])
        ]
        return Axis(tokens=(*["class token"] * prefix, *patches), grid=grid, prefix=prefix)

    def _tokens(self, encoded: Any) -> list[str]:
        names: list[str] = self.run.preprocessor.input.tokens_of(encoded.tokens[0].tolist())
        return names

    def _alignment(self, value: Any, interventions: Any) -> dict[str, Any]:
        """The cross-attention of the unchanged model over its source."""
        if interventions or not self.run.has_cross_attention:
            return {}
        return {"alignment": self.run.alignment(value, name=self._title(value))}

    def _title(self, value: Any) -> str:
        name = getattr(value, "name", None)
        if isinstance(value, np.ndarray):
            return f"array of {'×'.join(map(str, value.shape))}"
        return str(name or value)

    def _description(self) -> str:
        spec = self.run.spec
        return f"{spec.task}, {spec.model}"

    def _notes(self, value: Any) -> list[str]:
        """What of a text the model does not see."""
        if not isinstance(value, str) or self._kind.input_kind != "tokens":
            return []
        preprocessor = self.run.preprocessor
        unknown = UnknownTokens(preprocessor.input)
        unknown.add([value])
        cut = preprocessor.truncation([value])
        longest = getattr(preprocessor.options, "max_length", 0)
        return [note for note in (cut.describe(longest), unknown.describe()) if note]
