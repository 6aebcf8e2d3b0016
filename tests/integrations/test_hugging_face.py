"""Tracing Hugging Face models: the weights are those of eager attention, while the fused kernel runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.factories.hugging_face import CONFIGURATIONS, random_inputs, tiny_model

from regard.core.errors import RegardError
from regard.explain.interventions import HeadEdit, ZeroHead
from regard.explain.trace import AttentionCall
from regard.integrations.hugging_face import ARCHITECTURES, trace_hugging_face

pytest.importorskip("transformers", reason="the extra 'pretrained' is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:::transformers")
SHAPES = ("bert", "gpt2", "llama", "t5")


def eager_weights(model: Any, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The weights that the library computes itself, by the names of our layers."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    model.set_attn_implementation("sdpa")
    stack = "encoder" if ARCHITECTURES[model.config.model_type] == "encoder" else "decoder"
    fields = {
        "attentions": stack,
        "encoder_attentions": "encoder",
        "decoder_attentions": "decoder",
        "cross_attentions": "cross",
    }
    return {
        f"{slot}/{number}": weights
        for name, slot in fields.items()
        for number, weights in enumerate(output.get(name) or ())
    }


def test_every_architecture_has_a_tiny_model() -> None:
    assert set(CONFIGURATIONS) == set(ARCHITECTURES)


@pytest.mark.parametrize("padding", ["", "right", "left"])
@pytest.mark.parametrize("model_type", CONFIGURATIONS)
def test_weights_are_those_of_eager_attention(model_type: str, padding: str) -> None:
    model = tiny_model(model_type)
    inputs = random_inputs(model, padding=padding)
    with torch.no_grad(), trace_hugging_face(model) as trace:
        model(**inputs)
    expected = eager_weights(model, inputs)
    assert set(trace.calls) == set(expected)
    is_text = inputs["attention_mask"].bool()
    for call in trace:
        weights = call.weights()
        # A position of padding attends to nothing; the library lets it attend to everything.
        rows = (
            is_text if weights.shape[2] == is_text.shape[1] else torch.ones(2, 5, dtype=torch.bool)
        )
        found, wanted = (each.transpose(1, 2)[rows] for each in (weights, expected[call.name]))
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
        torch.testing.assert_close(weights @ call.value, call.output, atol=1e-5, rtol=0)


@pytest.mark.parametrize("model_type", CONFIGURATIONS)
def test_the_fused_kernel_runs_and_logits_are_unchanged(
    model_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(model_type)
    inputs = random_inputs(model, padding="left")
    with torch.no_grad():
        expected = model(**inputs).logits
    calls = []
    kernel = F.scaled_dot_product_attention

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return kernel(*args, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    with torch.no_grad(), trace_hugging_face(model) as trace:
        found = model(**inputs).logits
    assert len(calls) == len(trace) > 0
    assert torch.equal(found, expected)
    assert model.config._attn_implementation == "sdpa"
    with torch.no_grad():
        assert torch.equal(model(**inputs).logits, expected)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("padding", ["", "left"])
@pytest.mark.parametrize("model_type", ["gpt2", "llama", "mistral", "t5"])
def test_generation_is_unchanged(model_type: str, padding: str, cache: str) -> None:
    model = tiny_model(model_type)
    inputs = random_inputs(model, padding=padding)
    inputs.pop("decoder_input_ids", None)
    options = {"max_new_tokens": 8, "do_sample": False, "cache_implementation": cache}
    expected = model.generate(**inputs, **options)
    with trace_hugging_face(model) as trace:
        found = model.generate(**inputs, **options)
    assert found.tolist() == expected.tolist()
    call = trace["decoder/1"]
    torch.testing.assert_close(call.weights() @ call.value, call.output, atol=1e-5, rtol=0)


def test_a_static_cache_is_cut_where_the_kernel_cuts_it() -> None:
    from transformers import StaticCache

    model = tiny_model("llama")
    inputs = random_inputs(model)
    cache = StaticCache(config=model.config, max_cache_len=20)
    with torch.no_grad(), trace_hugging_face(model) as trace:
        model(**inputs, past_key_values=cache)
    expected = eager_weights(model, inputs)
    call = trace["decoder/1"]
    assert call.num_keys == 9
    torch.testing.assert_close(call.weights(), expected["decoder/1"], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)], ids=str
)
@pytest.mark.parametrize("model_type", CONFIGURATIONS)
def test_contributions_and_bias_sum_to_the_output_of_the_layer(
    model_type: str, dtype: torch.dtype, tolerance: float
) -> None:
    model = tiny_model(model_type, dtype=dtype)
    written = {}
    for path, module in model.named_modules():
        if path.endswith(("attention.output.dense", "o_proj", "attn.c_proj", ".o")):
            module.register_forward_hook(
                lambda _module, _inputs, output, path=path: written.update({path: output})
            )
    with torch.no_grad(), trace_hugging_face(model) as trace:
        model(**random_inputs(model, padding="left"))
    assert len(written) == len(trace)
    for call, expected in zip(trace, written.values(), strict=True):
        found = torch.einsum("bhqk,bhkm->bqm", call.weights(), call.written_values())
        found = found if call.bias is None else found + call.bias.detach()
        torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)
        torch.testing.assert_close(call.written(), expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("model_type", SHAPES)
def test_an_intervention_changes_what_the_layer_writes(model_type: str) -> None:
    model = tiny_model(model_type)
    inputs = random_inputs(model)
    layer = "encoder/1" if model_type == "bert" else "decoder/1"
    with torch.no_grad():
        plain = model(**inputs).logits
        with trace_hugging_face(model, interventions=[ZeroHead(layer, 0)]) as trace:
            changed = model(**inputs).logits
        head = trace[layer].output.shape[3]
        weight = next(
            parameter
            for name, parameter in model.named_parameters()
            if "1." in name
            and "decoder.block.1.layer.1" not in name
            and name.endswith(
                {
                    "bert": "layer.1.attention.output.dense.weight",
                    "gpt2": "h.1.attn.c_proj.weight",
                    "llama": "layers.1.self_attn.o_proj.weight",
                    "t5": "decoder.block.1.layer.0.SelfAttention.o.weight",
                }[model_type]
            )
        )
        # The same, by taking the head's rows out of the projection.
        (weight[:head] if model_type == "gpt2" else weight[:, :head]).zero_()
        expected = model(**inputs).logits
    assert not torch.allclose(plain, changed, atol=1e-3)
    torch.testing.assert_close(changed, expected)


def test_an_intervention_on_an_unknown_layer_is_an_error() -> None:
    model = tiny_model("gpt2")
    with (
        pytest.raises(RegardError, match=r"'decoder/7'.*decoder/0"),
        trace_hugging_face(model, interventions=[ZeroHead("decoder/7", 0)]),
    ):
        model(**random_inputs(model))
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("model_type", SHAPES)
def test_gradients_of_outputs_are_those_of_explicit_weights(model_type: str) -> None:
    model = tiny_model(model_type, dtype=torch.float64)
    inputs = random_inputs(model)
    with trace_hugging_face(model) as trace:
        model(**inputs).logits[0, -1, 7].backward()
    call = list(trace)[-1]
    found = call.gradient.transpose(1, 2).flatten(2)

    # By finite differences, with an intervention that adds to one number.
    @dataclass(frozen=True, eq=False)
    class Shift(HeadEdit):
        size: float = 0.0

        def apply(self, call: AttentionCall, output: torch.Tensor) -> torch.Tensor:
            shifted = output.clone()
            shifted[0, 1, 2, 3] += self.size
            return shifted

    scores = []
    for size in (-1e-5, 1e-5):
        with (
            torch.no_grad(),
            trace_hugging_face(model, interventions=[Shift(call.name, size=size)]),
        ):
            scores.append(model(**inputs).logits[0, -1, 7])
    expected = (scores[1] - scores[0]) / 2e-5
    width = call.output.shape[3]
    torch.testing.assert_close(found[0, 2, width + 3], expected, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("model_type", SHAPES)
def test_held_scales_leave_the_logits_and_make_attention_linear(model_type: str) -> None:
    """Without activations between attention layers, logits are an affine function of the held input."""
    model = tiny_model(model_type, dtype=torch.float64)
    for name, parameter in model.named_parameters():
        if any(
            part in name
            for part in ("mlp", "DenseReluDense", "intermediate", "predictions.transform")
        ):
            parameter.data.zero_()
    if model_type == "bert":
        # Its head has an activation too: explain the last hidden state.
        model = model.bert
    inputs = random_inputs(model)

    def score() -> torch.Tensor:
        output = model(**inputs)
        return (output.last_hidden_state if model_type == "bert" else output.logits)[1, 3, 5]

    with torch.no_grad():
        plain = score()
    with trace_hugging_face(model, hold=True) as trace:
        held = score()
    torch.testing.assert_close(held, plain, atol=1e-6, rtol=1e-6)
    held.backward()
    added = [*trace.embedded.values()]
    added += [each for name, each in model.named_parameters() if name.endswith("bias")]
    total = sum(float((each * each.grad).detach().sum()) for each in added if each.grad is not None)
    # T5 and Llama compute norms in single precision.
    assert total == pytest.approx(held.item(), abs=1e-6, rel=1e-6)
    assert set(trace.embedded) == ({"input", "output"} if model_type == "t5" else {"input"})
    assert torch.cat([call.gradient.flatten() for call in trace]).abs().max() > 0


def test_traces_can_be_nested() -> None:
    model = tiny_model("gpt2")
    inputs = random_inputs(model)
    with torch.no_grad(), trace_hugging_face(model) as outer:
        with trace_hugging_face(model) as inner:
            model(**inputs)
        assert len(inner) == 2
        assert len(outer) == 0
        model(**inputs)
    assert len(outer) == 2
    assert model.config._attn_implementation == "sdpa"


def test_an_unsupported_architecture_is_an_error() -> None:
    import transformers

    config = transformers.XLNetConfig(vocab_size=20, d_model=8, n_layer=1, n_head=2, d_inner=8)
    with (
        pytest.raises(RegardError, match=r"'xlnet'.*bert"),
        trace_hugging_face(transformers.XLNetModel(config)),
    ):
        pass
