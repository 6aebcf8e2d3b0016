"""Building mechanisms by name: the table, the options, and what is refused."""

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
        ("adittive", {}, "Unknown mechanism 'adittive'. Did you mean 'additive'?"),
        ("window", {"radios": 3}, "option of mechanism 'window' 'radios'. Did you mean 'radius'?"),
        ("dot", {"scale": 3}, "Unknown option 'scale': mechanism 'dot' has no options."),
        ("window", {"radius": -1}, "Window radius is -1; it must be a whole number, 0 or more."),
        ("taylor", {"num_terms": 0}, "num_terms=0; it needs 1 or more"),
        ("taylor", {"scale": -1.0}, "scale=-1.0; it must be positive"),
        ("polynomial", {"power": 0}, "power=0; it needs 1 or more"),
        ("polynomial", {"constant": -1.0}, "constant=-1.0; it must be 0 or more"),
        ("random_features", {"num_features": 0}, "num_features=0; it needs 1 or more"),
        ("delta", {"chunk_size": 0}, "chunk_size=0; it must be 1 or more"),
        ("elu", {"chunk_size": 0}, "chunk_size=0; it must be 1 or more"),
        ("taylor_window", {"radius": -1}, "radius=-1; it must be 0 or more"),
        ("location", {"max_length": 0}, "max_length=0; it must be 1 or more"),
    ],
)
def test_what_is_refused(name: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(RegardError) as error:
        build_mechanism(name, query_dim=4, key_dim=4, **options)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_too_many_features_name_the_count_and_the_ways_out() -> None:
    with pytest.raises(RegardError) as error:
        build_mechanism("taylor", query_dim=64, key_dim=64, num_terms=4)
    assert str(error.value) == (
        "Taylor attention with num_terms=4 on keys of width 64 needs 47,905 features a head, more "
        "than max_features=10,000. Take fewer terms, make heads narrower, or raise max_features."
    )


def test_a_foreign_mask_is_refused_with_those_that_fit() -> None:
    mechanism = build_mechanism("elu", query_dim=4, key_dim=4)
    inputs = [torch.randn(1, 1, 3, 4) for _ in range(3)]
    with pytest.raises(RegardError, match=r"EluAttention does not take the mask .*Window\(1\)"):
        mechanism(*inputs, Causal() & Window(1))


def test_too_long_a_sequence_names_both_lengths() -> None:
    mechanism = build_mechanism("location", query_dim=4, key_dim=4, max_length=64)
    inputs = [torch.randn(1, 1, 91, 4) for _ in range(3)]
    with pytest.raises(RegardError, match=r"max_length=64\) but there are 91 keys"):
        mechanism(*inputs)


def test_the_form_a_kernel_takes_is_visible_and_settable() -> None:
    sizes = {"query_length": 64, "key_length": 64, "key_dim": 16, "value_dim": 16}
    long = {**sizes, "query_length": 8192, "key_length": 8192}
    taylor = TaylorAttention(key_dim=16)
    assert taylor.form_for(**sizes, causal=True) == "quadratic"
    assert taylor.form_for(**long, causal=True) == "chunked"
    assert taylor.form_for(**long, causal=False) == "linear"
    forced = TaylorAttention(key_dim=16, form="quadratic")
    assert forced.form_for(**long, causal=True) == "quadratic"
    with pytest.raises(RegardError, match="Unknown form of TaylorAttention 'linaer'"):
        TaylorAttention(key_dim=16, form="linaer")


def test_short_causal_chunks_and_long_ones_agree_across_the_switch() -> None:
    inputs = [torch.randn(1, 2, 700, 8, dtype=torch.float64) for _ in range(3)]
    outputs = [
        build_mechanism("taylor", query_dim=8, key_dim=8, form=form)(*inputs, Causal())
        for form in ("auto", "quadratic", "linear")
    ]
    torch.testing.assert_close(outputs[0], outputs[1])
    torch.testing.assert_close(outputs[0], outputs[2])
