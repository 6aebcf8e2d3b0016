"""Building mechanisms by name: the table, options, invalid options."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import RegardError
from regard.core.masks import Causal, Window
from regard.core.mechanism import Mechanism
from regard.mechanisms import MECHANISMS, build_mechanism, mechanism_class
from regard.mechanisms.kernels.power_series import TaylorAttention


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_entry_builds_from_sizes_alone(name: str) -> None:
    mechanism = build_mechanism(name, query_dim=6, key_dim=6, num_heads=2, max_length=9)
    assert isinstance(mechanism, Mechanism)
    assert type(mechanism) is mechanism_class(name)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("adittive", {}, "'adittive'. Did you mean 'additive'?"),
        ("window", {"radios": 3}, "'radios' of mechanism 'window'. Did you mean 'radius'?"),
        ("dot", {"scale": 3}, "Unknown option 'scale': mechanism 'dot'"),
        ("window", {"radius": -1}, "radius=-1:"),
        ("taylor", {"num_terms": 0}, "num_terms=0:"),
        ("taylor", {"scale": -1.0}, "scale=-1.0:"),
        ("polynomial", {"power": 0}, "power=0:"),
        ("polynomial", {"constant": -1.0}, "constant=-1.0:"),
        ("random_features", {"num_features": 0}, "num_features=0:"),
        ("delta", {"chunk_size": 0}, "chunk_size=0:"),
        ("elu", {"chunk_size": 0}, "chunk_size=0:"),
        ("taylor_window", {"radius": -1}, "radius=-1:"),
        ("location", {"max_length": 0}, "max_length=0:"),
    ],
)
def test_invalid_options(name: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(RegardError) as error:
        build_mechanism(name, query_dim=4, key_dim=4, **options)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_too_many_features() -> None:
    with pytest.raises(RegardError) as error:
        build_mechanism("taylor", query_dim=64, key_dim=64, num_terms=4)
    for part in ("num_terms=4", "width 64", "47,905 features", "max_features=10,000"):
        assert part in str(error.value)


def test_an_unsupported_mask() -> None:
    mechanism = build_mechanism("elu", query_dim=4, key_dim=4)
    inputs = [torch.randn(1, 1, 3, 4) for _ in range(3)]
    with pytest.raises(RegardError, match=r"EluAttention .*Window\(1\)"):
        mechanism(*inputs, Causal() & Window(1))


def test_a_longer_sequence_than_max_length() -> None:
    mechanism = build_mechanism("location", query_dim=4, key_dim=4, max_length=64)
    inputs = [torch.randn(1, 1, 91, 4) for _ in range(3)]
    with pytest.raises(RegardError, match=r"max_length=64\) but there are 91 keys"):
        mechanism(*inputs)


def test_the_form_of_a_kernel() -> None:
    sizes = {"query_length": 64, "key_length": 64, "key_dim": 16, "value_dim": 16}
    long = {**sizes, "query_length": 8192, "key_length": 8192}
    taylor = TaylorAttention(key_dim=16)
    assert taylor.form_for(**sizes, causal=True) == "quadratic"
    assert taylor.form_for(**long, causal=True) == "chunked"
    assert taylor.form_for(**long, causal=False) == "linear"
    forced = TaylorAttention(key_dim=16, form="quadratic")
    assert forced.form_for(**long, causal=True) == "quadratic"
    with pytest.raises(RegardError, match=r"TaylorAttention\.form=linaer: "):
        TaylorAttention(key_dim=16, form="linaer")  # type: ignore[arg-type]


def test_all_forms_agree() -> None:
    inputs = [torch.randn(1, 2, 700, 8, dtype=torch.float64) for _ in range(3)]
    outputs = [
        build_mechanism("taylor", query_dim=8, key_dim=8, form=form)(*inputs, Causal())
        for form in ("auto", "quadratic", "linear")
    ]
    torch.testing.assert_close(outputs[0], outputs[1])
    torch.testing.assert_close(outputs[0], outputs[2])
