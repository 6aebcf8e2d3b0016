"""Head patterns: hand-set heads, a worked example, and induction heads that training finds."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.core.batches import END, START, TokenInput
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Mask
from regard.core.records.look import HeadScores
from regard.explain.head_patterns import PATTERNS, score_patterns
from regard.explain.interventions import SetWeights, ZeroHead
from regard.explain.trace import trace_attention
from regard.layers.multi_head import MultiHead
from regard.models import build_model


def _scores(weights: Tensor, tokens: Tensor | None, mask: Mask = NO_MASK, **options: Any) -> Any:
    """The scores of the first head of a layer with these weights."""
    layer = MultiHead(model_dim=4, num_heads=2)
    name = "decoder/0" if mask.causal else "encoder/0"
    batch = 1 if tokens is None else len(tokens)
    edits = [SetWeights(name, 0, weights=weights)]
    with trace_attention(layer, interventions=edits) as trace:
        layer(torch.randn(batch, weights.shape[-1], 4), mask=mask)
    first, second = score_patterns(trace, tokens, **options)
    assert (first.layer, first.head, second.head) == (name, "1", "2")
    return first.scores


TEXT = torch.tensor([[5, 6, 7, 5, 6]])  # a b c a b


def test_pure_heads_have_one_pattern() -> None:
    previous = torch.eye(5).roll(-1, dims=1).tril()
    previous[0, 0] = 1
    first = torch.eye(5)[[0, 0, 0, 0, 0]]
    same = torch.eye(5)[[0, 1, 2, 0, 1]]
    induction = torch.eye(5)[[0, 0, 0, 1, 2]]
    for name, weights in {
        "previous_token": previous,
        "first_token": first,
        "same_token": same,
        "induction": induction,
        "diagonal": torch.eye(5),
    }.items():
        scores = _scores(weights, TEXT, Causal())
        assert list(scores) == list(PATTERNS)
        assert scores[name] == pytest.approx(1.0), name
        others = {other: score for other, score in scores.items() if other != name}
        assert max(others.values()) <= 0.61, (
            name
        )  # such as the first "a", which is the first token too


def test_the_worked_example() -> None:
    # Row 3 is the second "a": it attends to what followed the first one with ½, to itself with ¼ …
    weights = torch.eye(5)
    weights[3] = torch.tensor([0.25, 0.5, 0.0, 0.0, 0.25])
    weights[4] = torch.tensor([0.0, 0.0, -0.5, 0.5, 1.0])  # signed: |W| is normalised
    assert _scores(weights, TEXT) == pytest.approx(
        {
            "previous_token": (0.0 + 0.0 + 0.0 + 0.25) / 4,
            "first_token": 0.25 / 4,
            "same_token": (0 + 0 + 0.25 + 0) / 4,
            "induction": (0.5 + 0.25) / 2,
            "diagonal": (1 + 1 + 1 + 0 + 0.5) / 5,
        }
    )


def test_padding_and_rows_are_counted_alike() -> None:
    tokens = torch.tensor([[5, 6, 5, 6], [5, 5, 0, 0]])
    weights = torch.eye(4).expand(2, 1, 4, 4).clone()
    weights[1, 0, 1, 0], weights[1, 0, 1, 1] = 1.0, 0.0
    weights[1, 0, 2:] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    scores = _scores(weights, tokens, lengths=torch.tensor([4, 2]))
    assert scores["diagonal"] == pytest.approx(5 / 6)
    assert scores["same_token"] == pytest.approx(1 / 6)
    assert scores["previous_token"] == pytest.approx(1 / 4)


def test_patterns_that_cannot_be() -> None:
    assert "same_token" not in _scores(torch.eye(3), torch.tensor([[5, 6, 7]]))
    assert "induction" not in _scores(torch.eye(2), torch.tensor([[5, 5]]), Causal())
    assert set(_scores(torch.eye(3), None)) == {"previous_token", "first_token", "diagonal"}
    assert _scores(torch.zeros(3, 3), None)["diagonal"] == 0
    layer = MultiHead(model_dim=4, num_heads=2, role="cross")
    with trace_attention(layer) as trace:
        layer(torch.randn(1, 3, 4), torch.randn(1, 3, 4))
    assert score_patterns(trace) == ()
    layer = MultiHead(model_dim=4, num_heads=2)
    with trace_attention(layer) as trace:
        layer(torch.randn(1, 5, 4))
    assert score_patterns(trace, torch.tensor([[1, 2]])) == ()
    with pytest.raises(
        RegardError, match="tokens of 2 rows, but the layer 'encoder/0' was called with 1"
    ):
        score_patterns(trace, TEXT.expand(2, -1))


def test_a_sink_that_is_set_by_hand_is_found() -> None:
    """The first position has a feature of its own, and the first head's queries look for it."""
    torch.manual_seed(0)
    layer = MultiHead(model_dim=8, num_heads=2, head_dim=4)
    x = torch.randn(1, 20, 8)
    x[:, :, 0] = 0
    x[:, 0, 0] = 1
    linear: Any = layer.projection.linear
    with torch.no_grad():  # rows are queries, keys and values, head by head
        for rows in (slice(0, 4), slice(8, 12)):
            linear.weight[rows], linear.bias[rows] = 0.0, 0.0
        linear.bias[0] = 4.0
        linear.weight[8, 0] = 4.0
    with torch.no_grad(), trace_attention(layer) as trace:
        layer(x, mask=Causal())
    sink, other = (each.scores["first_token"] for each in score_patterns(trace))
    assert sink >= 0.9
    assert other <= 0.5


# Sequences of random tokens that are repeated once: only what was seen before predicts the second half.
VOCABULARY, FIRST, STEPS, BATCH, LONGEST = 44, 4, 1000, 32, 40


def _repeated(count: int, length: int, generator: torch.Generator) -> Tensor:
    once = torch.randint(FIRST, VOCABULARY, (count, length), generator=generator)
    return torch.cat([torch.full((count, 1), START), once, once], dim=1)


def _nothing(count: int) -> TokenInput:
    return TokenInput(torch.full((count, 1), END), torch.ones(count, dtype=torch.long))


def _trained(num_layers: int) -> Any:
    """A small language model after training on repeated sequences of many lengths."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model: Any = build_model(
        "decoder_only",
        source=VOCABULARY,
        target_vocabulary=VOCABULARY,
        model_dim=64,
        num_heads=4,
        num_layers=num_layers,
        feed_forward_dim=64,
        dropout=0.0,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)
    for _ in range(STEPS):
        # A fixed length could be learned as a distance.
        length = int(torch.randint(4, LONGEST + 1, (1,), generator=generator))
        tokens = _repeated(BATCH, length, generator)
        logits = model(_nothing(BATCH), tokens[:, :-1])[:, length:]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, length + 1 :].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


def _examined(model: Any, heads: Any = ()) -> tuple[float, tuple[HeadScores, ...]]:
    """The mean log-probability of the repetition without some heads, and the scores of all."""
    tokens = _repeated(BATCH, LONGEST, torch.Generator().manual_seed(1))
    edits = [ZeroHead(each.layer, int(each.head) - 1) for each in heads]
    with torch.no_grad(), trace_attention(model, interventions=edits) as trace:
        likely = model(_nothing(BATCH), tokens[:, :-1]).log_softmax(dim=-1)[:, LONGEST:]
    mean = likely.gather(2, tokens[:, LONGEST + 1 :, None]).mean().item()
    return mean, score_patterns(trace, tokens[:, :-1])


@pytest.mark.stress
def test_training_finds_induction_heads_with_two_layers_only() -> None:
    one, two = _trained(1), _trained(2)
    _, scores = _examined(one)
    assert max(each.scores["induction"] for each in scores) <= 0.1
    before, scores = _examined(two)
    induction = [each for each in scores if each.scores["induction"] >= 0.5]
    assert induction
    assert {each.layer for each in induction} == {"decoder/1"}
    assert any(
        each.scores["previous_token"] >= 0.25 for each in scores if each.layer == "decoder/0"
    )
    without, _ = _examined(two, induction)
    drawn = list(itertools.combinations(scores, len(induction)))
    at_random = [_examined(two, heads)[0] for heads in drawn]
    assert before - without > 2
    assert without < sum(at_random) / len(at_random) - 0.5
