"""The closed form of a count: a polynomial in the length n and a width, found exactly and verified.

Counts are whole numbers, so interpolation in fractions finds their polynomial without rounding: of
degree 2 at most in n and 6 in the width. It is held against further points, and is no formula unless
all of them agree. Lengths are multiples of 256 far beyond where a mechanism still takes its short form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from regard.core.errors import RegardError

# What is counted, at a length and a width.
Figure = Callable[[int, int], int]

_LONG = (
    1 << 16
)  # Series kernels on wide heads keep to their short form for some thousand positions.
FITTED_LENGTHS = (_LONG, 2 * _LONG, 3 * _LONG)
FURTHER_LENGTHS = (_LONG + 256, 5 * _LONG)
FITTED_WIDTHS = (8, 16, 24, 32, 40, 48, 56)
FURTHER_WIDTHS = (72, 128)
NO_FORMULA = "no closed form"
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Polynomial:
    """The coefficients by the powers of n and of the width, none of them zero."""

    coefficients: dict[tuple[int, int], Fraction]
    width_name: str = "d"
    # Where there is a formula in n alone: the width it holds at.
    only_width: int | None = None

    def at(self, length: int, width: int) -> Fraction:
        """Its value."""
        return sum(
            (factor * length**i * width**j for (i, j), factor in self.coefficients.items()),
            start=Fraction(0),
        )

    def leading(self) -> Polynomial:
        """The terms with the highest power of n, which dominate where sequences are long."""
        highest = max((i for i, _ in self.coefficients), default=0)
        chosen = {powers: c for powers, c in self.coefficients.items() if powers[0] == highest}
        return replace(self, coefficients=chosen)

    def written(self, *, most_terms: int | None = None) -> str:
        """The formula, highest powers first; a power of n with many terms stands before a bracket.

        >>> Polynomial({(2, 1): Fraction(4), (2, 0): Fraction(6)}).written()
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
    figure: Figure, *, width: int, multiple_of: int = 1, width_name: str = "d"
) -> Polynomial | None:
    """The verified polynomial of a figure; in n alone, at this width, if there is none in both.

    None if there is neither, or if the figure cannot be had at the sizes that would tell. Widths that
    are tried are multiples of `multiple_of`.
    """
    widths = [multiple_of * each for each in FITTED_WIDTHS]
    further = [multiple_of * each for each in FURTHER_WIDTHS]
    try:
        found = Polynomial(_fitted(figure, widths), width_name)
        if _agrees(found, figure, [*widths, *further, width]):
            return found
        found = Polynomial(_fitted(figure, [width]), width_name, only_width=width)
        return found if _agrees(found, figure, [width]) else None
    except RegardError:
        return None


def _fitted(figure: Figure, widths: Sequence[int]) -> dict[tuple[int, int], Fraction]:
    by_width = [
        interpolated(FITTED_LENGTHS, [figure(n, width) for n in FITTED_LENGTHS]) for width in widths
    ]
    coefficients = {}
    for i, values in enumerate(zip(*by_width, strict=True)):
        for j, factor in enumerate(interpolated(widths, values)):
            if factor:
                coefficients[i, j] = factor
    return coefficients


def _agrees(found: Polynomial, figure: Figure, widths: Sequence[int]) -> bool:
    return all(found.at(n, width) == figure(n, width) for width in widths for n in FURTHER_LENGTHS)


def interpolated(places: Sequence[int], values: Sequence[int | Fraction]) -> list[Fraction]:
    """The coefficients, lowest power first, of the polynomial through these points.

    >>> [str(c) for c in interpolated([1, 2, 3], [1, 4, 9])]
    ['0', '0', '1']
    """
    total = [Fraction(0)] * len(places)
    for here, value in zip(places, values, strict=True):
        basis = [Fraction(value)]
        for other in places:
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
