"""The two models that `make pretrained` installs: exact weights, unchanged generation, known heads."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from regard.explain.look import look
from regard.integrations.hugging_face import trace_hugging_face
from regard.integrations.pretrained import PACKAGES, PretrainedModel, load_pretrained
from regard.integrations.pretrained_source import PretrainedSource

pytestmark = pytest.mark.stress
EXAMPLE = Path(__file__).parents[2] / "examples" / "induction_heads.py"

TEXTS = {
    "minilm": "Attention is not explanation, said one paper; the next replied that it is not not so.",
    "smollm2": "The capital of France is Paris. The capital of Italy is",
}
loaded = cache(load_pretrained)


@pytest.fixture(params=TEXTS)
def pretrained(request: pytest.FixtureRequest) -> PretrainedModel:
    return installed(request.param)


def installed(name: str) -> PretrainedModel:
    """The model, or a skipped test."""
    pytest.importorskip("transformers", reason="the extra 'pretrained' is not installed")
    if importlib.util.find_spec(PACKAGES[name].module) is None:
        pytest.skip(f"{PACKAGES[name].distribution} is not installed: make pretrained")
    return loaded(name)


@pytest.mark.parametrize("padding", ["", "left", "right"])
def test_weights_are_those_of_eager_attention(
    pretrained: PretrainedModel, padding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs = pretrained.model, padded(pretrained, padding)
    calls = []
    kernel = F.scaled_dot_product_attention

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return kernel(*args, **options)

    with torch.no_grad():
        plain = pretrained.forward(inputs)
        written: list[torch.Tensor] = []
        hooks = [
            module.register_forward_hook(lambda _module, _inputs, output: written.append(output))
            for path, module in model.named_modules()
            if path.endswith(("attention.output.dense", "o_proj"))
        ]
        with monkeypatch.context() as patched, trace_hugging_face(model) as trace:
            patched.setattr(F, "scaled_dot_product_attention", counted)
            traced = pretrained.forward(inputs)
        for hook in hooks:
            hook.remove()
        assert torch.equal(traced, plain)
        assert len(calls) == len(trace) == model.config.num_hidden_layers
        model.set_attn_implementation("eager")
        expected = model(**inputs, output_attentions=True).attentions
        model.set_attn_implementation("sdpa")
    rows = inputs["attention_mask"].bool()
    for call, wanted, output in zip(trace, expected, written, strict=True):
        weights = call.weights()
        torch.testing.assert_close(
            weights.transpose(1, 2)[rows], wanted.transpose(1, 2)[rows], atol=1e-5, rtol=0
        )
        found = torch.einsum("bhqk,bhkm->bqm", weights, call.written_values())
        found = found if call.bias is None else found + call.bias.detach()
        torch.testing.assert_close(found, output, atol=1e-4, rtol=0)


def padded(pretrained: PretrainedModel, padding: str) -> dict[str, Any]:
    """A text, and with padding a shorter one beside it."""
    text = TEXTS[pretrained.name]
    if not padding:
        return pretrained.encode(text)
    tokenizer = pretrained.tokenizer
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    given = [text, " ".join(text.split()[:4])]
    return dict(tokenizer(given, padding=True, padding_side=padding, return_tensors="pt"))


@pytest.mark.parametrize("padding", ["", "left"])
def test_generation_is_unchanged(padding: str) -> None:
    smollm2 = installed("smollm2")
    inputs = padded(smollm2, padding)
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 2}
    expected = smollm2.model.generate(**inputs, **options)
    with trace_hugging_face(smollm2.model):
        found = smollm2.model.generate(**inputs, **options)
    assert found.tolist() == expected.tolist()
    assert " Rome" in smollm2.tokenizer.decode(found[0])


def test_both_can_be_looked_at(pretrained: PretrainedModel) -> None:
    text = TEXTS[pretrained.name]
    record = look(PretrainedSource(pretrained), text, methods=["weights", "attribution"])
    assert len(record.maps) == pretrained.model.config.num_hidden_layers
    assert set(record.importance) == {"weights", "attribution"}
    if pretrained.kind == "decoder":
        assert record.prediction.startswith(" Rome")


@pytest.fixture
def induction_heads() -> Iterator[Any]:
    """examples/induction_heads.py as a module."""
    spec = importlib.util.spec_from_file_location("induction_heads", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_known_heads_of_smollm2_are_found(induction_heads: Any) -> None:
    """Scores are .87 to .89; log-probabilities −2.2 unchanged, −11.6 without, −3.7 at random."""
    found = induction_heads.measure(installed("smollm2"), draws=10)
    for pattern in ("first_token", "previous_token", "induction"):
        assert max(found.scores[pattern].values()) > 0.7
    drops = [found.plain - each for each in found.at_random]
    drop = found.plain - found.without
    assert drop > 2 * sum(drops) / len(drops) + 2
    # A draw may by chance take a head that everything depends on.
    assert sum(drop > each for each in drops) >= 9
