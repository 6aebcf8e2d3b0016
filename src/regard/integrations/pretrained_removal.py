"""Removing tokens of a text that a pretrained model reads, and what becomes of its output.

    item = PretrainedItem.of(load_pretrained("minilm"), "a dull film")
    item.scores([np.array([0, 2])])        of the text with the tokens 0 and 2 only

    head                     explained, and scored
    language model           the most probable output: the mean log-probability of its tokens
    masked language model    the token at the mask; without one, the middle token is masked: its probability
    classifier               the probability of the predicted label
    none                     the cosine similarity to the embedding of the unchanged text

Special tokens and the mask are never removed; what follows a removed token moves up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.explain.attribution import input_importance
from regard.explain.look_parts import centred
from regard.explain.removal import CONTINUATION, MAX_CONTEXT, Units
from regard.integrations.hugging_face import trace_hugging_face
from regard.integrations.pretrained import PretrainedModel

SCORES = {
    "language_model": "mean log-probability of the predicted tokens",
    "masked_language_model": "probability of the predicted token",
    "classifier": "probability of the predicted label",
    None: "cosine similarity to the embedding of the unchanged text",
}
BATCH_TOKENS = 2048

Rows = Int[Tensor, "rows length"]


@dataclass(frozen=True, kw_only=True, eq=False)
class PretrainedItem:
    """A text of a pretrained model (`Removable`).

    tokens       of the text, at most `MAX_CONTEXT`
    positions    of those that can be removed
    length       of what attention layers read: the text and, in a decoder, what it wrote
    explain      the explained output of the unchanged text
    score        the score of texts, as rows of tokens without padding
    """

    pretrained: PretrainedModel
    tokens: Int[Tensor, " length"]
    positions: Units
    length: int
    explain: Callable[[], Float[Tensor, ""]]
    score: Callable[[Rows], Float[Tensor, " rows"]]

    @classmethod
    def of(cls, pretrained: PretrainedModel, text: str) -> PretrainedItem:
        """With what the model makes of the text."""
        tokens = pretrained.encode(text, truncate_to=MAX_CONTEXT)["input_ids"][0]
        tokenizer = pretrained.tokenizer
        special = set(tokenizer.all_special_ids)
        positions = np.array([n for n, each in enumerate(tokens.tolist()) if each not in special])
        has_mask = bool((tokens == tokenizer.mask_token_id).any())
        if pretrained.head == "masked_language_model" and len(positions) and not has_mask:
            middle = len(positions) // 2
            tokens[positions[middle]] = tokenizer.mask_token_id
            positions = np.delete(positions, middle)
        written = 0
        if pretrained.head is None:
            explain, score = _embedding(pretrained, tokens)
        else:
            explain, score, written = _prediction(pretrained, tokens)
        return cls(
            pretrained=pretrained,
            tokens=tokens,
            positions=positions,
            length=len(tokens) + (max(0, written - 1) if pretrained.kind == "decoder" else 0),
            explain=explain,
            score=score,
        )

    @property
    def units(self) -> int:
        """The number of tokens that can be removed."""
        return len(self.positions)

    def importance(self, methods: Sequence[str]) -> dict[str, Float[np.ndarray, " units"]]:
        """By `input_importance`."""
        found = input_importance(
            self.pretrained.model,
            self.explain,
            length=self.length,
            methods=methods,
            trace=trace_hugging_face,
        )
        return {
            name: values[0].numpy(force=True).astype(np.float64)[self.positions]
            for name, values in found.items()
        }

    @torch.inference_mode()
    def scores(self, kept: Sequence[Units]) -> Float[np.ndarray, " subsets"]:
        """Texts of one length together, so that nothing is padded."""
        always = np.setdiff1d(np.arange(len(self.tokens)), self.positions)
        kept_positions = [
            np.sort(np.concatenate([always, self.positions[units]])) for units in kept
        ]
        found = np.zeros(len(kept))
        for length in {len(each) for each in kept_positions}:
            numbers = [n for n, each in enumerate(kept_positions) if len(each) == length]
            size = max(1, BATCH_TOKENS // max(1, self.length))
            for start in range(0, len(numbers), size):
                chosen = numbers[start : start + size]
                rows = self.tokens[torch.from_numpy(np.stack([kept_positions[n] for n in chosen]))]
                found[chosen] = self.score(rows).double().numpy(force=True)
        return found


def _embedding(
    pretrained: PretrainedModel, tokens: Int[Tensor, " length"]
) -> tuple[Callable[[], Tensor], Callable[[Rows], Tensor]]:
    """The mean of the last hidden states."""

    def embed(rows: Rows) -> Float[Tensor, "rows model_dim"]:
        return pretrained.forward(_unpadded(rows)).mean(dim=1)

    with torch.no_grad():
        whole = embed(tokens[None])

    def explain() -> Float[Tensor, ""]:
        return (embed(tokens[None]) * whole).sum()

    return explain, lambda rows: F.cosine_similarity(embed(rows), whole)


def _prediction(
    pretrained: PretrainedModel, tokens: Int[Tensor, " length"]
) -> tuple[Callable[[], Tensor], Callable[[Rows], Tensor], int]:
    """What the model predicts for the text; and how many tokens it wrote."""
    mask, head = pretrained.tokenizer.mask_token_id, pretrained.head
    written = torch.tensor([[]], dtype=torch.long, device=tokens.device)
    if head == "language_model":
        found = pretrained.generate(_unpadded(tokens[None]), max_tokens=CONTINUATION)
        written = torch.tensor([found], device=tokens.device)

    def logits(rows: Rows) -> Float[Tensor, "rows predicted outputs"]:
        inputs = _unpadded(rows)
        before = written[:, :-1].expand(len(rows), -1)
        if pretrained.kind == "seq2seq":
            start = pretrained.model.generation_config.decoder_start_token_id
            inputs["decoder_input_ids"] = F.pad(before, (1, 0), value=start)
            return pretrained.forward(inputs)
        if head == "language_model":
            fed = _unpadded(torch.cat([rows, before], dim=1))
            return pretrained.forward(fed, last=written.shape[1])
        output = pretrained.forward(inputs)
        if head == "classifier":
            return output[:, None]
        return output[rows == mask].unflatten(0, (len(rows), -1))

    labels = written
    if head != "language_model":
        with torch.no_grad():
            labels = logits(tokens[None]).argmax(dim=-1)

    def score(rows: Rows) -> Float[Tensor, " rows"]:
        likely = logits(rows).log_softmax(dim=-1)
        mean = likely.gather(2, labels.expand(len(rows), -1)[..., None]).mean(dim=(1, 2))
        return mean if head == "language_model" else mean.exp()

    return lambda: centred(logits(tokens[None]), labels).sum(), score, written.shape[1]


def _unpadded(rows: Rows) -> dict[str, Tensor]:
    return {"input_ids": rows, "attention_mask": torch.ones_like(rows)}
