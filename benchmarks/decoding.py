"""The bars of decoding: 64 German sentences, 3 + 3 layers of width 256, two threads, float32.

The rivals are Hugging Face's Marian (`generate`) and CTranslate2. All three hold the same weights and
are given the same sentences. The weights are random, and the vectors of PAD, START and END are zero:
their logit is then 0, below the best of 8,000, so that nothing ends early and everyone takes as many
steps as the limit says, for every sentence: the mean length of the English side. That all three say
the same is checked too.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measuring import Finding, median_seconds
from regard.core.errors import RegardError
from regard.core.special_tokens import END, PAD, SPECIAL_TOKENS, START, UNKNOWN
from regard.models.decoding import decode
from regard.models.transformer import Transformer

SENTENCES = 64
VOCABULARY = 8000
WIDTH, HEADS, LAYERS, HIDDEN = 256, 4, 3, 1024
THREADS = 2
MAX_LENGTH = 256


def sentences() -> tuple[Tensor, Tensor, int]:
    """Word numbers by frequency, lengths, and the steps to take: END counted in all."""
    folder = os.environ.get("REGARD_DATA")
    if not folder:
        raise RegardError(
            "The benchmark 'decoding' reads multi30k/, and REGARD_DATA names no folder. Set it to "
            "the folder of corpora, or name the other benchmarks."
        )
    corpus = Path(folder) / "multi30k"
    tally = Tally(word for line in lines(corpus / "train.de.gz") for word in line)
    kept = [word for word, _ in tally.most_common(VOCABULARY - len(SPECIAL_TOKENS))]
    numbers = {word: number for number, word in enumerate(kept, start=len(SPECIAL_TOKENS))}
    german = lines(corpus / "test_2016_flickr.de.gz")[:SENTENCES]
    english = lines(corpus / "test_2016_flickr.en.gz")[:SENTENCES]
    rows = [torch.tensor([*(numbers.get(word, UNKNOWN) for word in line), END]) for line in german]
    lengths = torch.tensor([len(row) for row in rows])
    steps = round(sum(len(line) + 1 for line in english) / SENTENCES)
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD), lengths, steps


def lines(path: Path) -> list[list[str]]:
    """The words of every line."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.split() for line in file]


def our_model() -> Transformer:
    """The original block order, which is also Marian's."""
    model = Transformer(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        model_dim=WIDTH,
        num_heads=HEADS,
        num_layers=LAYERS,
        feed_forward_dim=HIDDEN,
        norm_first=False,
    )
    with torch.no_grad():
        model.output.table.weight[[PAD, START, END]] = 0.0
    return model.eval()


def marian(ours: Transformer) -> Any:
    """Hugging Face's model with our weights."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=HIDDEN,
        decoder_ffn_dim=HIDDEN,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=MAX_LENGTH,
        pad_token_id=PAD,
        bos_token_id=START,
        eos_token_id=END,
        forced_eos_token_id=None,
        decoder_start_token_id=START,
    )
    theirs: Any = MarianMTModel(config)
    theirs.eval()
    state = {
        "final_logits_bias": torch.zeros(1, VOCABULARY),
        "model.shared.weight": ours.output.table.weight,
        "lm_head.weight": ours.output.table.weight,
    }
    positions = ours.source_position.table(torch.arange(MAX_LENGTH)).float()
    for stack, blocks in (("encoder", ours.encoder), ("decoder", ours.decoder)):
        state[f"model.{stack}.embed_tokens.weight"] = ours.output.table.weight
        state[f"model.{stack}.embed_positions.weight"] = positions
        for number, block in enumerate(blocks):
            names = block_names(block, prefix=f"model.{stack}.layers.{number}")
            state |= {name: weight.detach() for name, weight in names.items()}
    theirs.load_state_dict(state)
    return theirs


def block_names(block: Any, *, prefix: str) -> dict[str, Tensor]:
    """The tensors of one of our blocks under the names they have in Marian."""
    parts: dict[str, nn.Module] = {
        "fc1": block.feed_forward.widen,
        "fc2": block.feed_forward.narrow,
        "final_layer_norm": block.around_feed_forward.norm,
    }
    found: dict[str, Tensor] = {}
    attentions = {"self_attn": getattr(block, "self_attention", None) or block.attention}
    if hasattr(block, "self_attention"):
        attentions["encoder_attn"] = block.cross_attention
        parts["self_attn_layer_norm"] = block.around_self_attention.norm
        parts["encoder_attn_layer_norm"] = block.around_cross_attention.norm
    else:
        parts["self_attn_layer_norm"] = block.around_attention.norm
    for name, attention in attentions.items():
        parts[f"{name}.out_proj"] = attention.output
        linears = [part for part in attention.projection.modules() if isinstance(part, nn.Linear)]
        for kind in ("weight", "bias"):
            stacked = torch.cat([getattr(linear, kind) for linear in linears])
            for letter, piece in zip("qkv", stacked.split(WIDTH), strict=True):
                found[f"{prefix}.{name}.{letter}_proj.{kind}"] = piece
    for name, part in parts.items():
        found |= {f"{prefix}.{name}.{kind}": weight for kind, weight in part.named_parameters()}
    return found


@contextmanager
def ctranslate(theirs: Any) -> Iterator[Any]:
    """CTranslate2's translator of the Marian model, in single precision."""
    import ctranslate2  # type: ignore[import-untyped]
    from ctranslate2.converters.transformers import (  # type: ignore[import-untyped]
        BartLoader,
    )

    theirs.config.normalize_before = False
    theirs.config.normalize_embedding = False
    spec = BartLoader().get_model_spec(theirs)
    tokens = [*SPECIAL_TOKENS, *map(str, range(len(SPECIAL_TOKENS), VOCABULARY))]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.bos_token = spec.config.decoder_start_token = SPECIAL_TOKENS[START]
    spec.config.eos_token = SPECIAL_TOKENS[END]
    spec.config.unk_token = SPECIAL_TOKENS[UNKNOWN]
    spec.validate()
    spec.optimize(quantization="float32")
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        yield ctranslate2.Translator(
            folder, device="cpu", inter_threads=1, intra_threads=THREADS, compute_type="float32"
        )


def decoding() -> Iterator[Finding]:
    """Greedy and beam search against both rivals, and cached against uncached."""
    source, lengths, steps = sentences()
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    ours = our_model()
    theirs = marian(ours)
    words = [
        [token_name(token) for token in row[:length]]
        for row, length in zip(source.tolist(), lengths.tolist(), strict=True)
    ]
    attended = (source != PAD).long()

    def we(beam_size: int, *, cached: bool = True) -> list[list[int]]:
        found = decode(ours, source, lengths, beam_size=beam_size, max_length=steps, cached=cached)
        return [list(hypothesis.tokens) for hypothesis in found]

    def hugging_face(beam_size: int) -> list[list[int]]:
        said: list[list[int]] = theirs.generate(
            source,
            attention_mask=attended,
            num_beams=beam_size,
            do_sample=False,
            max_new_tokens=steps,
        ).tolist()
        return [row[1:] for row in said]

    with ctranslate(theirs) as translator:

        def ctranslate2(beam_size: int) -> list[list[int]]:
            results = translator.translate_batch(
                words, beam_size=beam_size, max_decoding_length=steps, max_batch_size=0
            )
            return [[token_number(name) for name in result.hypotheses[0]] for result in results]

        for name, beam_size in (("greedy", 1), ("beam 4", 4)):
            rivals: list[Callable[[int], list[list[int]]]] = [we, hugging_face, ctranslate2]
            said = [rival(beam_size) for rival in rivals]
            for rival, one, other in zip(
                rivals[1:], *zip(*pairwise(said), strict=True), strict=True
            ):
                same = sum(a == b for a, b in zip(one, other, strict=True)) / SENTENCES
                yield Finding(
                    f"{name}: share of sentences that {rival.__name__} says alike",
                    same, 0.95 if beam_size == 1 else 0.5, larger_is_better=True,
                )  # fmt: skip
            uncached = we(beam_size, cached=False)
            same = sum(a == b for a, b in zip(said[0], uncached, strict=True)) / SENTENCES
            yield Finding(
                f"{name}: share of sentences equal without a cache",
                same,
                1.0,
                larger_is_better=True,
            )
            calls = [partial(rival, beam_size) for rival in rivals]
            mine, face, fast = median_seconds(calls, repeats=9)
            detail = f"({mine * 1e3:.0f} ms; {face * 1e3:.0f}; {fast * 1e3:.0f}; {steps} steps)"
            yield Finding(
                f"{name}: times faster than Hugging Face", face / mine, 1.25, True, detail
            )
            yield Finding(f"{name}: time / CTranslate2", mine / fast, 1.3, False, detail)
    torch.set_num_threads(threads)


def token_name(token: int) -> str:
    """What CTranslate2 calls a token."""
    return SPECIAL_TOKENS[token] if token < len(SPECIAL_TOKENS) else str(token)


def token_number(name: str) -> int:
    """The token of a name."""
    return SPECIAL_TOKENS.index(name) if name in SPECIAL_TOKENS else int(name)
