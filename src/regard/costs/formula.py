"""Closed-form cost formulas: an exact polynomial in the sequence length n and a width.

Counts are integers, so polynomial interpolation in fractions is exact: degree 2 at most in n, 6 in
the width. The polynomial is verified on further points and rejected if one differs. Lengths are
multiples of 512, beyond the length at which mechanisms switch from their quadratic form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from regard.core.errors import RegardError

# (length, width) → count
Count = Callable[[int, int], int]

# Series kernels on wide heads use the quadratic form up to a few thousand positions.
LONG = 1 << 16
# For costs that are counted, which takes longer for chunks of a long sequence.
SHORTER = 1 << 10
FITTED_WIDTHS = (8, 16, 24, 32, 40, 48, 56)
TEST_WIDTHS = (72, 128)
NO_FORMULA = "no closed form"
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Polynomial:
    """Nonzero coefficients by (power of n, power of the width)."""

    coefficients: dict[tuple[int, int], Fraction]
    width_name: str = "d"
    # For a formula in n alone: the width at which it is valid.
    only_width: int | None = None

    def at(self, length: int, width: int) -> Fraction:
        """Evaluate the polynomial."""
        return sum(
            (factor * length**i * width**j for (i, j), factor in self.coefficients.items()),
            start=Fraction(0),
        )

    def leading(self) -> Polynomial:
        """The terms with the highest power of n, which dominate for long sequences."""
        highest = max((i for i, _ in self.coefficients), default=0)
        chosen = {powers: c for powers, c in self.coefficients.items() if powers[0] == highest}
        return replace(self, coefficients=chosen)

    def as_text(self, *, most_terms: int | None = None) -> str:
        """Format the formula, highest powers first; a power of n with many terms is factored out.

        >>> Polynomial({(2, 1): Fraction(4), (2, 0): Fraction(6)}).as_text()
        '4n²d + 6n²'
        """
        powers = sorted({i for i, _ in self.coefficients}, reverse=True)
        formula = _sum([self._group(i, most_terms) for i in powers]) or "0"
        if self.only_width is None:
            return formula
        return f"{formula} ({self.width_name} = {self.only_width})"

    def _group(self, power: int, most_terms: int | None) -> str:
        terms = sorted(
            ((j, c) for (i, j), c in self.coefficients.items() if i == power), reverse=True
        )
        cut = most_terms is not None and len(terms) > most_terms
        length = _power("n", power)
        if cut or (len(terms) > 2 and length):
            shown = [_term(c, _power(self.width_name, j)) for j, c in terms[:most_terms]]
            inside = _sum(shown) + (" + …" if cut else "")
            return f"{length}·({inside})" if length else inside
        return _sum([_term(c, length + _power(self.width_name, j)) for j, c in terms])


def closed_form(
    count: Count, *, width: int, multiple_of: int = 1, width_name: str = "d", length: int = LONG
) -> Polynomial | None:
    """The verified polynomial of a count; in n alone, at this width, if there is none in both.

    None if there is neither, or if `count` raises a RegardError. The widths tried are multiples of
    `multiple_of`, and the lengths multiples of 512, from `length` on.
    """
    widths = [multiple_of * each for each in FITTED_WIDTHS]
    further = [multiple_of * each for each in TEST_WIDTHS]
    try:
        found = Polynomial(_fit(count, length, widths), width_name)
        if _agrees(found, count, length, [*widths, *further, width]):
            return found
        found = Polynomial(_fit(count, length, [width]), width_name, only_width=width)
        return found if _agrees(found, count, length, [width]) else None
    except RegardError:
        return None


def _fit(count: Count, length: int, widths: Sequence[int]) -> dict[tuple[int, int], Fraction]:
    lengths = (length, 2 * length, 3 * length)
    by_width = [interpolate(lengths, [count(n, width) for n in lengths]) for width in widths]
    coefficients = {}
    for i, values in enumerate(zip(*by_width, strict=True)):
        for j, factor in enumerate(interpolate(widths, values)):
            if factor:
                coefficients[i, j] = factor
    return coefficients


def _agrees(found: Polynomial, count: Count, length: int, widths: Sequence[int]) -> bool:
    further = (length + 512, 5 * length)
    return all(found.at(n, width) == count(n, width) for width in widths for n in further)


def interpolate(points: Sequence[int], values: Sequence[int | Fraction]) -> list[Fraction]:
    """Lagrange interpolation: the coefficients, lowest power first.

    >>> [str(c) for c in interpolate([1, 2, 3], [1, 4, 9])]
    ['0', '0', '1']
    """
    total = [Fraction(0)] * len(points)
    for here, value in zip(points, values, strict=True):
        basis = [Fraction(value)]
        for other in points:
            if other == here:
                continue
            # times (x − other) / (here − other)
            scale = Fraction(1, here - other)
            basis = [
                scale * (low - other * high)
                for low, high in zip([Fraction(0), *basis], [*basis, Fraction(0)], strict=True)
            ]
        total = [a + b for a, b in zip(total, basis, strict=True)]
    return total


def _power(name: str, power: int) -> str:
    if power == 0:
        return ""
    return name if power == 1 else name + str(power).translate(SUPERSCRIPTS)


def _term(factor: Fraction, letters: str) -> str:
    if not letters:
        return str(factor)
    if factor in (1, -1):
        return letters if factor == 1 else f"-{letters}"
    return f"{factor}{letters}" if factor.denominator == 1 else f"{factor}·{letters}"


def _sum(terms: Sequence[str]) -> str:
    return " + ".join(terms).replace("+ -", "− ").replace("(-", "(−")
