"""The sinks, previous-token and induction heads of a language model, and what it says without the latter.

    python examples/induction_heads.py                 SmolLM2: `make pretrained`
    python examples/induction_heads.py hf:FOLDER       a Hugging Face model on this disk

Rows of random tokens are given twice, one after the other: only attention to the first time can predict the
second. The heads with the highest scores are listed by pattern. Then the induction heads, those with a
score of 0.5 or more, write nothing, and for comparison as many other heads, drawn at random.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass

import torch

from regard.explain import PATTERNS, ZeroHead, score_patterns
from regard.integrations import PretrainedModel, load_pretrained, trace_hugging_face

THRESHOLD = 0.5
Head = tuple[str, str]  # layer, and number from 1


@dataclass(frozen=True)
class Found:
    """What was measured; log-probabilities are means per token of the second time.

    scores         by pattern, of every head
    plain          log-probability by the unchanged model
    without        by the model without its induction heads
    at_random      by the model without as many other heads, one number per draw
    """

    scores: dict[str, dict[Head, float]]
    plain: float
    without: float
    at_random: tuple[float, ...]

    @property
    def induction_heads(self) -> list[Head]:
        """The heads with a score of 0.5 or more, the highest first."""
        scores = self.scores["induction"]
        return sorted((h for h in scores if scores[h] >= THRESHOLD), key=lambda h: -scores[h])


def repeated_tokens(model: PretrainedModel, *, rows: int, length: int, seed: int) -> torch.Tensor:
    """Rows of a first token, random tokens, and the same again."""
    special = set(model.tokenizer.all_special_ids)
    ordinary = torch.tensor([n for n in range(len(model.tokenizer)) if n not in special])
    generator = torch.Generator().manual_seed(seed)
    chosen = ordinary[torch.randint(len(ordinary), (rows, length), generator=generator)]
    first = torch.full((rows, 1), model.tokenizer.bos_token_id or 0)
    return torch.cat([first, chosen, chosen], dim=1)


@torch.no_grad()
def measure(
    model: PretrainedModel, *, rows: int = 4, length: int = 64, draws: int = 10, seed: int = 0
) -> Found:
    """Find the heads, and switch them off."""
    tokens = repeated_tokens(model, rows=rows, length=length, seed=seed)
    # The first repeated token cannot be known.
    labels = tokens[:, length + 2 :, None]

    def log_probability(heads: list[Head]) -> float:
        edits = [ZeroHead(layer, int(head) - 1) for layer, head in heads]
        with trace_hugging_face(model.model, interventions=edits):
            logits = model.forward({"input_ids": tokens})[:, length + 1 : -1]
        return float(logits.log_softmax(dim=-1).gather(2, labels).mean())

    with trace_hugging_face(model.model) as trace:
        model.forward({"input_ids": tokens})
    scored = score_patterns(trace, tokens)
    scores = {name: {(h.layer, h.head): h.scores[name] for h in scored} for name in PATTERNS}
    found = Found(scores, plain=log_probability([]), without=0.0, at_random=())
    others = [head for head in scores["induction"] if head not in found.induction_heads]
    sample, count = random.Random(seed), len(found.induction_heads)
    return Found(
        scores,
        plain=found.plain,
        without=log_probability(found.induction_heads),
        at_random=tuple(log_probability(sample.sample(others, count)) for _ in range(draws)),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the tokens and of the draws")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = measure(load_pretrained(options.model), draws=options.draws, seed=options.seed)
    for name, scores in found.scores.items():
        best = sorted(scores, key=lambda head: -scores[head])[:5]
        listed = ", ".join(f"{'.'.join(head)} {scores[head]:.3f}" for head in best)
        count = sum(score >= THRESHOLD for score in scores.values())
        print(f"{name:15} {count:4} of {len(scores)} heads ≥ {THRESHOLD}: {listed}")
    count, draws = len(found.induction_heads), found.at_random
    print(f"\nlog-probability of a repeated token: {found.plain:.2f}")
    print(f"without the {count} induction heads: {found.without:.2f}")
    print(
        f"without {count} others, {len(draws)} draws: mean {sum(draws) / len(draws):.2f}, "
        f"from {min(draws):.2f} to {max(draws):.2f}"
    )


if __name__ == "__main__":
    main()
