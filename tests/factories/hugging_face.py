"""Tiny Hugging Face models with random weights, and folders of them with a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

VOCABULARY = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "</s>")
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "saw", "one", "dog")
SIZE = 60

_COMMON = {"vocab_size": SIZE, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 5}
_BERT = _COMMON | {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
_LLAMA = _BERT | {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8}
_T5 = _COMMON | {
    "d_model": 24,
    "d_kv": 4,
    "d_ff": 32,
    "num_layers": 2,
    "num_heads": 3,
    "decoder_start_token_id": 0,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
}

# model_type → the class, and its configuration.
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", _BERT),
    "roberta": ("RobertaForMaskedLM", _BERT),
    "xlm-roberta": ("XLMRobertaForMaskedLM", _BERT),
    "gpt2": (
        "GPT2LMHeadModel",
        _COMMON | {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 64},
    ),
    "llama": ("LlamaForCausalLM", _LLAMA),
    "mistral": ("MistralForCausalLM", _LLAMA | {"sliding_window": 4}),
    "qwen2": ("Qwen2ForCausalLM", _LLAMA),
    "qwen3": ("Qwen3ForCausalLM", _LLAMA),
    "t5": ("T5ForConditionalGeneration", _T5),
    "mt5": ("MT5ForConditionalGeneration", _T5 | {"feed_forward_proj": "gated-gelu"}),
}


def tiny_model(
    model_type: str, *, name: str | None = None, dtype: torch.dtype = torch.float32, **options: Any
) -> Any:
    """A model of two layers, in evaluation mode, whose attention is far from uniform."""
    import transformers

    usual, configuration = CONFIGURATIONS[model_type]
    model_class = getattr(transformers, name or usual)
    model = model_class(model_class.config_class(**configuration, **options))
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4, generator=generator)
    return model.eval().to(dtype)


def random_inputs(model: Any, *, padding: str = "", length: int = 9) -> dict[str, Any]:
    """Two texts, of which the first has three tokens less if there is padding "left" or "right"."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(6, SIZE, (2, length), generator=generator)
    mask = torch.ones_like(tokens)
    if padding:
        mask[0, slice(0, 3) if padding == "left" else slice(length - 3, None)] = 0
    inputs = {"input_ids": tokens * mask, "attention_mask": mask}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(6, SIZE, (2, 5), generator=generator)
    return inputs


def write_model(folder: Path, model: Any, *, tokenizer: bool = True) -> Path:
    """A folder as `save_pretrained` writes it, with a tokenizer of words."""
    model.save_pretrained(folder)
    if tokenizer:
        write_tokenizer(folder, is_bert=model.config.model_type == "bert")
    return folder


def write_tokenizer(folder: Path, *, is_bert: bool) -> None:
    """A tokenizer of words; for BERT with [CLS] and [SEP] around a text."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = [*VOCABULARY, *WORDS, *(f"word{number}" for number in range(SIZE))][:SIZE]
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if is_bert:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        mask_token="[MASK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        eos_token="</s>",
    ).save_pretrained(folder)
