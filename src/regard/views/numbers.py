"""Counts and weights as a reader likes them: few digits, a unit, no idle decimals."""

from __future__ import annotations

UNITS = ("", "k", "M", "G", "T", "P")


def humanised(count: int) -> str:
    """A count to two or three digits with its unit.

    >>> [humanised(count) for count in (0, 999, 1536, 33685504, 551903297536)]
    ['0', '999', '1.5 k', '34 M', '552 G']
    """
    scaled, unit = float(count), 0
    # 999.5 and more would be written as 1000.
    while scaled >= 999.5 and unit < len(UNITS) - 1:
        scaled, unit = scaled / 1000, unit + 1
    if unit == 0:
        return str(count)
    return f"{scaled:.1f} {UNITS[unit]}" if scaled < 9.95 else f"{scaled:.0f} {UNITS[unit]}"


def spaced(count: int) -> str:
    """A count in full, its digits in groups of three.

    >>> spaced(16384) == "16\\u202f384"
    True
    """
    return f"{count:,}".replace(",", "\u202f")


def weight_text(weight: float) -> str:
    """A weight to two decimals, with a proper minus.

    >>> [weight_text(weight) for weight in (0.0, 0.004, 0.234, -1.5)]
    ['0', '<0.01', '0.23', '−1.50']
    """
    if weight == 0:
        return "0"
    if abs(weight) < 0.01:
        return "<0.01" if weight > 0 else ">−0.01"
    return f"{weight:.2f}".replace("-", "−")


def factor_text(factor: float) -> str:
    """How many times as much.

    >>> [factor_text(factor) for factor in (2.0, 3.9961, 2.347)]
    ['×2', '×4', '×2.3']
    """
    return f"×{factor:.1f}".removesuffix(".0")
