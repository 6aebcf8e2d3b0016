"""Faster ways of computing the same thing give the same numbers."""

from __future__ import annotations

from regard.conformance.case import KEYS, LONG, Case
from regard.conformance.inputs import forward
from regard.conformance.verdict import NotApplicable, close
from regard.core.masks import Causal, Padding

CHUNK_SIZES = (1, 2, 3, 5, 64)
FORMS = ("auto", "quadratic", "linear")


def chunk_size_independence(case: Case) -> None:
    """Where there is an attribute `chunk_size`, its value changes nothing."""
    if not isinstance(getattr(case.mechanism, "chunk_size", None), int):
        raise NotApplicable("it has no attribute `chunk_size`")
    if getattr(case.mechanism, "form", None) in FORMS:
        # The quadratic form, which short sequences would take, has no chunks.
        setattr(case.mechanism, "form", "linear")  # noqa: B010 (not every mechanism has it)
    _vary(case, "chunk_size", CHUNK_SIZES)


def form_independence(case: Case) -> None:
    """Where there is an attribute `form` (auto, quadratic or linear), its value changes nothing."""
    if getattr(case.mechanism, "form", None) not in FORMS:
        raise NotApplicable("it has no attribute `form`")
    _vary(case, "form", FORMS)


def _vary(case: Case, attribute: str, choices: tuple[object, ...]) -> None:
    lengths = [(7, KEYS), (KEYS, KEYS), (13, KEYS), (LONG, LONG)]
    for query_length, key_length in lengths:
        if not case.fits(key_length):
            continue
        inputs = case.draw(query_length=query_length, key_length=key_length)
        padding = Padding(case.lengths(inputs))
        for mask in (case.open_mask, Causal(), padding, Causal() & padding):
            if not case.takes(mask):
                continue
            original = getattr(case.mechanism, attribute)
            expected = forward(case.mechanism, inputs, mask)
            for choice in choices:
                setattr(case.mechanism, attribute, choice)
                got = forward(case.mechanism, inputs, mask)
                what = f"{query_length} queries, {key_length} keys, {mask}: {attribute}={choice!r}"
                close(got, expected, f"{what} against {original!r}")
            setattr(case.mechanism, attribute, original)
