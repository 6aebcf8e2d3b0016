"""Greedy and beam search: exhaustive search, with and without cache, threads, top-k, invalid options."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple, Self

import pytest
import torch
from torch import Tensor

from regard.core.batches import END, PAD, START, TokenInput
from regard.core.device import run_in_thread_pool
from regard.core.errors import RegardError
from regard.core.mechanism import Step
from regard.core.protocols import Hypothesis
from regard.mechanisms.compatibility import compatible_mechanisms
from regard.models.generation.search import (
    BLOCK_SIZE,
    decode,
    split_rows,
    top_k_tokens,
)
from regard.models.seq2seq.transformer import Transformer

VOCABULARY = 7
WORDS = range(3, VOCABULARY)


class ChainState(NamedTuple):
    position: Tensor
    table: Tensor

    def select(self, index: Tensor) -> Self:
        return self._replace(position=self.position[index], table=self.table[index])


class Chain:
    """A Markov chain: the next token depends on the previous one and the first source token."""

    training = False

    def __init__(self, table: Tensor) -> None:
        self.table = table
        self.rows_stepped = 0

    def target_limits(self, source: TokenInput) -> None:
        return None

    def hidden(self, source: TokenInput, decoder_input: Tensor) -> Tensor:
        return self.table[source.tokens[:, :1], decoder_input]

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden

    def start(self, source: TokenInput) -> ChainState:
        return ChainState(torch.zeros_like(source.lengths), self.table[source.tokens[:, 0]])

    def step(self, state: ChainState, token: Tensor) -> Step:
        self.rows_stepped += len(token)
        logits = state.table[torch.arange(len(token)), token]
        return Step(logits, state._replace(position=state.position + 1))

    def weights(self, source: TokenInput, decoder_input: Tensor) -> dict[str, Tensor]:
        return {}

    def parameters(self) -> list[Tensor]:
        return []


def random_chain(seed: int) -> Chain:
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(VOCABULARY, VOCABULARY, VOCABULARY, generator=generator).double()
    table[:, START, END] -= 2.0
    return Chain(table)


def sources(count: int) -> TokenInput:
    source = torch.arange(count)[:, None] % VOCABULARY
    return TokenInput(source, torch.ones(count, dtype=torch.long))


def log_probability(chain: Chain, first: int, generated: tuple[int, ...]) -> float:
    rows = chain.table[first].log_softmax(-1)
    return sum(float(rows[a, b]) for a, b in itertools.pairwise((START, *generated)))


def exhaustive_search(
    chain: Chain, first: int, *, length_penalty: float, max_length: int
) -> Hypothesis:
    """Every sequence that ends within the limit, scored one by one."""
    ended = (
        words for count in range(max_length) for words in itertools.product(WORDS, repeat=count)
    )
    return max(
        (
            Hypothesis(
                words,
                log_probability(chain, first, (*words, END)) / (len(words) + 1) ** length_penalty,
            )
            for words in ended
        ),
        key=lambda hypothesis: hypothesis.score,
    )


def greedy_reference(chain: Chain, first: int, *, max_length: int) -> tuple[int, ...]:
    generated: list[int] = []
    token = START
    while len(generated) < max_length:
        rows = chain.table[first, token].clone()
        rows[:2] = float("-inf")
        token = int(rows.argmax())
        if token == END:
            break
        generated.append(token)
    return tuple(generated)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
def test_wide_beam_equals_exhaustive_search(seed: int, length_penalty: float) -> None:
    chain = random_chain(seed)
    found = decode(
        chain, sources(VOCABULARY), beam_size=400, length_penalty=length_penalty, max_length=5
    )
    for first, hypothesis in enumerate(found):
        best = exhaustive_search(chain, first, length_penalty=length_penalty, max_length=5)
        assert hypothesis.tokens == best.tokens
        assert hypothesis.score == pytest.approx(best.score, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_search(seed: int) -> None:
    chain = random_chain(seed)
    found = decode(chain, sources(VOCABULARY), max_length=9)
    lengths = set()
    for first, hypothesis in enumerate(found):
        assert hypothesis.tokens == greedy_reference(chain, first, max_length=9)
        generated = hypothesis.tokens if len(hypothesis.tokens) == 9 else (*hypothesis.tokens, END)
        assert hypothesis.score == pytest.approx(
            log_probability(chain, first, generated) / len(generated)
        )
        lengths.add(len(generated))
    assert len(lengths) > 1


def beam_search_reference(
    chain: Chain, first: int, *, beam_size: int, length_penalty: float, limit: int
) -> Hypothesis:
    """Beam search with lists, without early stopping."""
    rows = chain.table[first].log_softmax(-1)
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[Hypothesis] = []
    open_beams = beam_size
    for length in range(1, limit + 1):
        extensions = [
            (total + float(rows[(START, *generated)[-1], token]), (*generated, token))
            for total, generated in live
            for token in (END, *WORDS)
        ]
        kept = sorted(extensions, reverse=True)[:open_beams]
        ended = [(total, generated) for total, generated in kept if generated[-1] == END]
        finished += [
            Hypothesis(generated[:-1], total / length**length_penalty) for total, generated in ended
        ]
        live = [(total, generated) for total, generated in kept if generated[-1] != END]
        open_beams -= len(ended)
    if not finished:
        finished = [
            Hypothesis(generated, total / limit**length_penalty) for total, generated in live
        ]
    return max(finished, key=lambda hypothesis: hypothesis.score)


@pytest.mark.parametrize("beam_size", [1, 2, 3, 5])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
@pytest.mark.parametrize("max_length", [None, 3])
def test_early_stopping_does_not_change_the_result(
    beam_size: int, length_penalty: float, max_length: int | None
) -> None:
    for seed in range(6):
        chain = random_chain(seed)
        found = decode(
            chain,
            sources(VOCABULARY),
            beam_size=beam_size,
            length_penalty=length_penalty,
            max_length=max_length,
        )
        for first, hypothesis in enumerate(found):
            expected = beam_search_reference(
                chain,
                first,
                beam_size=beam_size,
                length_penalty=length_penalty,
                limit=12 if max_length is None else max_length,
            )
            assert hypothesis.tokens == expected.tokens
            assert hypothesis.score == pytest.approx(expected.score)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_finished_rows_leave_the_batch(beam_size: int) -> None:
    """One hypothesis ends at once; the other runs to the limit."""
    table = torch.zeros(VOCABULARY, VOCABULARY, VOCABULARY).double()
    table[0, :, END] = 100.0
    table[1, :, END] = -100.0
    chain = Chain(table)
    found = decode(chain, sources(2), beam_size=beam_size, max_length=8)
    assert [len(hypothesis.tokens) for hypothesis in found] == [0, 8]
    assert chain.rows_stepped == 2 + 7 * beam_size


def test_rows_are_independent_and_in_order() -> None:
    chain = random_chain(3)
    source = sources(VOCABULARY)
    for beam_size in (1, 4):
        together = decode(chain, source, beam_size=beam_size)
        alone = [
            decode(chain, source.select(slice(row, row + 1)), beam_size=beam_size)[0]
            for row in range(VOCABULARY)
        ]
        assert together == alone
        order = torch.tensor([4, 1, 6, 0, 0])
        shuffled = decode(chain, source.select(order), beam_size=beam_size)
        assert shuffled == [together[row] for row in order.tolist()]


def test_ties_are_deterministic() -> None:
    chain = Chain(torch.zeros(VOCABULARY, VOCABULARY, VOCABULARY).double())
    first = decode(chain, sources(3), beam_size=3, max_length=4)
    assert first == decode(chain, sources(3), beam_size=3, max_length=4)
    assert len({hypothesis.tokens for hypothesis in first}) == 1
    assert decode(chain, sources(1), max_length=4)[0].tokens == ()


def random_transformer(**options: Any) -> Transformer:
    """A random model with long, varied outputs."""
    torch.manual_seed(0)
    model = Transformer(
        source=23,
        target_vocabulary=23,
        model_dim=24,
        num_heads=3,
        num_layers=2,
        feed_forward_dim=29,
        max_length=40,
        tie="none",
        position="learned",
        **options,
    ).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(6.0 if "position" in name else 2.0 if parameter.dim() > 1 else 1.0)
        model.output.table.weight[END] *= 1.3
    return model


@pytest.mark.parametrize(
    "mechanism", compatible_mechanisms(role="self", masks=frozenset({"causal"}))
)
def test_with_and_without_cache(mechanism: str) -> None:
    cross = mechanism if mechanism in cross_mechanisms() else "scaled_dot"
    # float64: in float32 the scores of the polynomial kernel differ by 1e-4, more on some CPUs.
    model = random_transformer(
        decoder_mechanism=mechanism, encoder_mechanism="scaled_dot", cross_mechanism=cross
    ).double()
    source = TokenInput(torch.randint(3, 23, (6, 7)), torch.tensor([7, 1, 4, 2, 7, 5]))
    for beam_size in (1, 3):
        cached = decode(model, source, beam_size=beam_size, max_length=12)
        uncached = decode(model, source, beam_size=beam_size, max_length=12, use_cache=False)
        assert [h.tokens for h in cached] == [h.tokens for h in uncached]
        for ours, theirs in zip(cached, uncached, strict=True):
            assert ours.score == pytest.approx(theirs.score, abs=1e-9)
        assert max(len(h.tokens) for h in cached) > 3
        assert len({h.tokens for h in cached}) > 2


def cross_mechanisms() -> list[str]:
    return compatible_mechanisms(role="cross", causal=False, masks=frozenset({"padding"}))


def test_default_max_length_depends_on_the_source() -> None:
    table = torch.zeros(VOCABULARY, VOCABULARY, VOCABULARY).double()
    table[..., END] = -100.0
    source = torch.full((2, 3), 4)
    found = decode(Chain(table), TokenInput(source, torch.tensor([3, 1])))
    assert [len(hypothesis.tokens) for hypothesis in found] == [16, 12]


class AtOnce:
    """Predicts the source's tokens, all at once; its score is the beam size."""

    training = False

    def sequence_loss(self, batch: Any) -> Any:
        raise NotImplementedError

    def decode_sequences(self, source: TokenInput, *, beam_size: int) -> list[Hypothesis]:
        assert torch.is_inference_mode_enabled()
        rows = zip(source.tokens.tolist(), source.lengths.tolist(), strict=True)
        return [Hypothesis(tuple(row[:length]), beam_size) for row, length in rows]

    def weights(self, source: TokenInput, decoder_input: Tensor) -> dict[str, Tensor]:
        return {}

    def parameters(self) -> list[Tensor]:
        return []


def test_a_model_that_decodes_itself() -> None:
    tokens = torch.arange(80).view(40, 2) + 4
    source = TokenInput(tokens, torch.tensor([2, 1] * 20))
    found = decode(AtOnce(), source, beam_size=3)
    expected = [row[: 2 - number % 2] for number, row in enumerate(tokens.tolist())]
    assert [list(one.tokens) for one in found] == expected
    assert {one.score for one in found} == {3}
    with pytest.raises(RegardError, match="beam_size=0"):
        decode(AtOnce(), source, beam_size=0)


def test_empty_batch() -> None:
    empty = TokenInput(torch.zeros((0, 4), dtype=torch.long), torch.zeros(0, dtype=torch.long))
    assert decode(random_chain(0), empty, beam_size=2) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam_size=0"),
        ({"beam_size": True}, "beam_size=True"),
        ({"max_length": 0}, "max_length=0"),
        ({"length_penalty": -0.5}, "length_penalty=-0.5"),
        ({"length_penalty": float("nan")}, "length_penalty=nan"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        decode(random_chain(0), sources(2), **options)


def test_model_in_training_mode() -> None:
    model = random_transformer().train()
    with pytest.raises(RegardError, match=r"Call model\.eval"):
        decode(model, sources(2))


@pytest.mark.parametrize("beam_size", [1, 3])
def test_threads_do_not_change_the_result(beam_size: int) -> None:
    torch.manual_seed(5)
    model = Transformer(source=11, target_vocabulary=13, model_dim=8, num_heads=2, tie="target")
    model = model.double().eval()
    lengths = torch.randint(1, 9, (67,))
    tokens = torch.randint(3, 11, (67, 8)).masked_fill(torch.arange(8) >= lengths[:, None], PAD)
    source = TokenInput(tokens, lengths)
    before = torch.get_num_threads()
    generated = {}
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            assert len(split_rows(lengths)) == threads
            generated[threads] = decode(model, source, beam_size=beam_size)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert [one.tokens for one in generated[1]] == [one.tokens for one in generated[3]]
    assert (
        len({one.tokens for one in generated[1]}) > 9
    )  # the rows differ, so a wrong order would show
    assert [one.score for one in generated[1]] == pytest.approx([one.score for one in generated[3]])


def test_rows_are_split_evenly() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        lengths = torch.arange(40, 0, -1)
        one, other = split_rows(lengths)
        assert sorted([*one.tolist(), *other.tolist()]) == list(range(40))
        assert abs(int(lengths[one].sum()) - int(lengths[other].sum())) <= 20
        assert len(split_rows(lengths[:31])) == 1
    finally:
        torch.set_num_threads(before)


def test_errors_in_a_thread_are_raised() -> None:
    def fail() -> int:
        raise RegardError("no")

    with pytest.raises(RegardError, match="no"):
        run_in_thread_pool([fail, lambda: 1])


@pytest.mark.parametrize(
    "bounded", [{"position": "learned"}, {"decoder_mechanism": "synthesizer_dense"}]
)
def test_max_length_of_the_model(bounded: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = Transformer(
        source=9,
        target_vocabulary=9,
        model_dim=8,
        num_heads=2,
        num_layers=1,
        max_length=6,
        **bounded,
    ).eval()
    with torch.no_grad():
        model.output.table.weight[END] = 0.0
        model.output.table.weight[END, 0] = -100.0  # END is rarely the best
    source = TokenInput(torch.randint(4, 9, (3, 5)), torch.full((3,), 5))
    limits = model.target_limits(source)
    assert limits is not None
    assert limits.tolist() == [6, 6, 6]
    for beam_size in (1, 2):
        generated = decode(model, source, beam_size=beam_size)
        assert max(len(one.tokens) for one in generated) <= 6


@pytest.mark.parametrize(
    "vocabulary", [7, BLOCK_SIZE, 8 * BLOCK_SIZE, 9 * BLOCK_SIZE + 1, 23 * BLOCK_SIZE + 37]
)
@pytest.mark.parametrize("count", [1, 4])
def test_top_k_tokens_equals_sorting(vocabulary: int, count: int) -> None:
    torch.manual_seed(vocabulary)
    for _ in range(20):
        logits = torch.randn(7, vocabulary, dtype=torch.float64)
        found = top_k_tokens(logits, count=count)
        expected = logits.log_softmax(-1)
        expected[:, [PAD, START]] = float("-inf")
        values, tokens = expected.sort(dim=-1, descending=True)
        assert torch.equal(found.log_probability, values[:, :count])
        assert torch.equal(found.token, tokens[:, :count])


def test_top_k_tokens_of_equal_logits() -> None:
    assert top_k_tokens(torch.zeros(1, 5 * BLOCK_SIZE), count=1).token.tolist() == [[2]]


def test_top_k_tokens_does_not_change_the_logits() -> None:
    logits = torch.randn(2, 3 * BLOCK_SIZE)
    before = logits.clone()
    top_k_tokens(logits, count=2)
    assert torch.equal(logits, before)
