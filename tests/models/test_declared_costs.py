"""Every sequence-to-sequence model: its declared cost equals the counted one, at random shapes."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import pytest
import torch
from tests.factories.declared_costs import NUM_SHAPES, assert_declared_cost
from torch import Tensor

from regard.models import MODELS
from regard.models.decoder_only import DecoderOnly
from regard.models.seq2seq.recurrent import SCORES, RecurrentEncoderDecoder
from regard.models.seq2seq.transformer import Transformer, TransformerState

LONGEST_SOURCE = 40


class Sizes(NamedTuple):
    """Random sizes of one call."""

    batch: int
    source: int
    target: int
    source_vocabulary: int
    target_vocabulary: int

    def tokens(self) -> tuple[Tensor, Tensor, Tensor]:
        """Source, source lengths and decoder input."""
        source = torch.randint(1, self.source_vocabulary, (self.batch, self.source))
        decoder_input = torch.randint(1, self.target_vocabulary, (self.batch, self.target))
        return source, torch.full((self.batch,), self.source), decoder_input


def random_sizes(random: Random, *, longest_target: int) -> Sizes:
    return Sizes(
        batch=random.randint(1, 4),
        source=random.randint(2, LONGEST_SOURCE),
        target=random.randint(1, longest_target),
        source_vocabulary=random.randint(50, 200),
        target_vocabulary=random.randint(50, 200),
    )


def check(model: Any, sizes: Sizes, state: Any, where: str) -> None:
    tokens = sizes.tokens()
    assert_declared_cost(
        model.cost(batch_size=sizes.batch, source_length=sizes.source, target_length=sizes.target),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        forward=lambda: model(*tokens),
        step=lambda: model.step(state, tokens[2][:, 0]).output,
        where=where,
    )


TRANSFORMERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "norm last": {"norm_first": False, "tie": "none", "position": "learned"},
    "one table": {"tie": "all", "activation": "gelu", "final_norm": False},
    "rotary": {"position": "rotary", "num_kv_heads": 1, "bias": False, "num_decoder_layers": 2},
    "mixed": {
        "encoder_mechanism": "window",
        "decoder_mechanism": "retention",
        "cross_mechanism": "additive",
        "encoder_options": {"radius": 5},
    },
    "kernels": {"mechanism": "elu", "position": "none"},
}


@pytest.mark.parametrize("case", TRANSFORMERS)
def test_transformer(case: str) -> None:
    random = Random(case)
    for _ in range(NUM_SHAPES):
        sizes = random_sizes(random, longest_target=80)
        options = {"tie": "target", "num_layers": 1, **TRANSFORMERS[case]}
        if options["tie"] == "all":
            sizes = sizes._replace(target_vocabulary=sizes.source_vocabulary)
        heads = random.choice((2, 4))
        model = Transformer(
            source_vocabulary=sizes.source_vocabulary,
            target_vocabulary=sizes.target_vocabulary,
            model_dim=heads * random.choice((16, 32)),
            num_heads=heads,
            **options,
        ).eval()
        check(model, sizes, advanced(model, sizes), where=f"{case}, {sizes}")


@torch.no_grad()
def advanced(model: Transformer, sizes: Sizes) -> TransformerState:
    """A state after all target tokens; their values do not affect the count."""
    source, lengths, decoder_input = sizes.tokens()
    state = model.start(source, lengths)
    x = model.target_embedding(decoder_input)
    blocks = [
        before._replace(own=block.self_attention.extend(before.own, x))
        for block, before in zip(model._decoder_blocks(), state.blocks, strict=True)
    ]
    return state._replace(blocks=tuple(blocks))


DECODERS: dict[str, dict[str, Any]] = {
    "rotary": {},
    "gpt": {"position": "learned", "embedding_scaled": False},
    "norm last": {"norm_first": False, "tie": "none", "position": "sinusoidal"},
    "kernels": {"mechanism": "elu", "position": "none", "num_kv_heads": 1},
    "gated": {"mechanism": "gated", "bias": False},
}


@pytest.mark.parametrize("case", DECODERS)
def test_decoder_only(case: str) -> None:
    random = Random(case)
    for _ in range(NUM_SHAPES):
        sizes = random_sizes(random, longest_target=60)
        sizes = sizes._replace(target_vocabulary=sizes.source_vocabulary)
        heads = random.choice((2, 4))
        model = DecoderOnly(
            source_vocabulary=sizes.source_vocabulary,
            target_vocabulary=sizes.target_vocabulary,
            model_dim=heads * random.choice((16, 32)),
            num_heads=heads,
            num_layers=random.choice((1, 2)),
            **DECODERS[case],
        ).eval()
        with torch.no_grad():
            state = model.start(*sizes.tokens()[:2])
            x = model.embedding(sizes.tokens()[2])
            blocks = [
                block.attention.extend(before, x)
                for block, before in zip(model._blocks(), state.blocks, strict=True)
            ]
        state = state._replace(blocks=tuple(blocks))
        check(model, sizes, state, where=f"{case}, {sizes}")


RECURRENTS: dict[str, dict[str, Any]] = {
    "bahdanau": {"attention_style": "bahdanau"},
    "luong": {"attention_style": "luong"},
    "input feeding": {"attention_style": "luong", "input_feeding": True},
    "without attention": {"mechanism": "none"},
}


@pytest.mark.parametrize("case", RECURRENTS)
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_recurrent(case: str, cell: str) -> None:
    random = Random(case + cell)
    for number in range(NUM_SHAPES):
        sizes = random_sizes(random, longest_target=5)
        # A GRU is counted step by step, which is slow.
        sizes = sizes if cell == "lstm" else sizes._replace(source=random.randint(2, 6))
        options: dict[str, Any] = {
            "mechanism": SCORES[number % len(SCORES)],
            "tie": random.choice(("target", "none")),
            "bidirectional": random.random() < 0.5,
            "num_layers": random.choice((1, 2)),
            "num_decoder_layers": random.choice((1, 2)),
            **RECURRENTS[case],
        }
        model = RecurrentEncoderDecoder(
            source_vocabulary=sizes.source_vocabulary,
            target_vocabulary=sizes.target_vocabulary,
            embedding_dim=random.choice((32, 48)),
            hidden_dim=random.choice((64, 96)),
            cell=cell,
            max_length=LONGEST_SOURCE,
            **options,
        ).eval()
        with torch.no_grad():
            state = model.start(*sizes.tokens()[:2])
        check(model, sizes, state, where=f"{case}, {options}, {sizes}")


def test_every_seq2seq_model_is_covered() -> None:
    """Text models: test_text_encoder_costs, test_text_classifiers and test_recursive_cost."""
    pairs = {name for name, entry in MODELS.items() if entry.inputs == "pairs"}
    assert pairs == {"transformer", "decoder_only", "recurrent"}
