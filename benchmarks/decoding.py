"""Decoding speed: 64 German sentences, 3 + 3 layers of width 256, two threads, float32.

The baselines are Hugging Face's Marian (`generate`) and CTranslate2. All three have the same briefly
trained weights, so that most sentences end by themselves, and get the same sentences as one batch, the
same beam size, length penalty 1 and the same maximum length; how many hypotheses are cut at it is
reported. Times are wall times of the whole call, from token ids to token ids, alternating; results are
ratios of medians.

Greedy search is the same everywhere. Beam search is not: ours closes a beam with every hypothesis that
ends, and stops when no unfinished one can win; CTranslate2 keeps all beams open until as many hypotheses
have ended; Hugging Face stops when the best unfinished one would not win if it ended now. The number of
equal outputs is reported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import eq
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.measurement import Measurement, median_seconds
from benchmarks.multi30k import VOCABULARY, encoded, load_rows, multi30k
from benchmarks.quick_training import train_briefly
from regard.core.batches import END, PAD, SPECIAL_TOKENS, START, UNKNOWN, TokenInput
from regard.models.generation.search import decode
from regard.models.seq2seq.transformer import Transformer

SENTENCES = 64
WIDTH, HEADS, LAYERS, HIDDEN = 256, 4, 3, 1024
DROPOUT = 0.1
THREADS = 2
LIMIT = 80
REPEATS = 9
MAX_LENGTH = 256

Decoder = Callable[[int], list[list[int]]]


def sentences() -> TokenInput:
    """The first sentences of the test set."""
    rows = load_rows("test_2016_flickr")[:SENTENCES]
    found = encoded(rows, multi30k().vocabulary).collate_inputs(np.arange(SENTENCES))
    assert isinstance(found, TokenInput)
    return found


def our_model(*, dropout: float = 0.0) -> Transformer:
    """The original block order, which is also Marian's; in evaluation mode."""
    return Transformer(
        source=VOCABULARY,
        target_vocabulary=VOCABULARY,
        model_dim=WIDTH,
        num_heads=HEADS,
        num_layers=LAYERS,
        feed_forward_dim=HIDDEN,
        norm_first=False,
        dropout=dropout,
    ).eval()


def marian(ours: Transformer, *, dropout: float = 0.0) -> Any:
    """Hugging Face's model with our weights and, in training, the same dropout."""
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
        dropout=dropout,
        activation_dropout=dropout,
        attention_dropout=0.0,
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
    import ctranslate2
    from ctranslate2.converters.transformers import BartLoader

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


def decoding() -> Iterator[Measurement]:
    """Greedy and beam search against both baselines, and with against without a cache."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        torch.manual_seed(0)
        ours = our_model(dropout=DROPOUT)
        train_briefly(ours, multi30k().train)
        theirs = marian(ours)
        with ctranslate(theirs) as translator:
            systems = decoders(ours, theirs, translator)
            for name, beam_size in (("greedy", 1), ("beam 4", 4)):
                yield from _measurements(name, beam_size, systems)
    finally:
        torch.set_num_threads(threads)


def decoders(ours: Transformer, theirs: Any, translator: Any) -> dict[str, Decoder]:
    """Each system as a function from beam size to output tokens, without END."""
    batch = sentences()
    source, lengths = batch.tokens, batch.lengths
    attended = (source != PAD).long()
    words = [
        [token_name(token) for token in row[:length]]
        for row, length in zip(source.tolist(), lengths.tolist(), strict=True)
    ]

    def ours_decode(beam_size: int, *, use_cache: bool = True) -> list[list[int]]:
        found = decode(ours, batch, beam_size=beam_size, max_length=LIMIT, use_cache=use_cache)
        return [list(hypothesis.tokens) for hypothesis in found]

    def hugging_face(beam_size: int) -> list[list[int]]:
        outputs = theirs.generate(
            source,
            attention_mask=attended,
            num_beams=beam_size,
            do_sample=False,
            length_penalty=1.0,
            max_new_tokens=LIMIT,
        )
        return [[token for token in row[1:] if token not in (END, PAD)] for row in outputs.tolist()]

    def ctranslate2(beam_size: int) -> list[list[int]]:
        results = translator.translate_batch(
            words,
            beam_size=beam_size,
            length_penalty=1.0,
            max_decoding_length=LIMIT,
            max_batch_size=0,
        )
        return [[token_id(name) for name in result.hypotheses[0]] for result in results]

    return {
        "ours": ours_decode,
        "ours without a cache": partial(ours_decode, use_cache=False),
        "Hugging Face": hugging_face,
        "CTranslate2": ctranslate2,
    }


def _measurements(name: str, beam_size: int, systems: dict[str, Decoder]) -> Iterator[Measurement]:
    outputs = {system: decoder(beam_size) for system, decoder in systems.items()}
    num_equal = {
        system: sum(map(eq, outputs["ours"], theirs)) for system, theirs in outputs.items()
    }
    # Rounding decides between tokens of nearly equal logits; a beam has more such ties.
    thresholds = {
        "ours without a cache": SENTENCES,
        "Hugging Face": 60 if beam_size == 1 else 48,
        "CTranslate2": 60 if beam_size == 1 else 48,
    }
    for system, threshold in thresholds.items():
        label = f"{name}: outputs equal to {system}, of {SENTENCES}"
        yield Measurement(label, num_equal[system], threshold, True)
    timed = ("ours", "Hugging Face", "CTranslate2")
    calls = [partial(systems[system], beam_size) for system in timed]
    mine, face, fast = median_seconds(calls, repeats=REPEATS)
    lengths = [len(tokens) + 1 for tokens in outputs["ours"]]
    detail = (
        f"({mine * 1e3:.0f} ms; {face * 1e3:.0f}; {fast * 1e3:.0f}; "
        f"{min(lengths)} to {max(lengths)} tokens, {sum(n > LIMIT for n in lengths)} cut at the limit)"
    )
    yield Measurement(f"{name}: times faster than Hugging Face", face / mine, 1.25, True, detail)
    yield Measurement(f"{name}: time / CTranslate2", mine / fast, 1.3, False, detail)


def token_name(token: int) -> str:
    """The name of a token in CTranslate2."""
    return SPECIAL_TOKENS[token] if token < len(SPECIAL_TOKENS) else str(token)


def token_id(name: str) -> int:
    """The id of a token name."""
    return SPECIAL_TOKENS.index(name) if name in SPECIAL_TOKENS else int(name)
