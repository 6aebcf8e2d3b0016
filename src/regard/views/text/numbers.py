"""Human-readable numbers: counts, bytes, times, weights and percentages."""

from __future__ import annotations

UNITS = ("", "k", "M", "G", "T", "P")


def count_text(count: int) -> str:
    """A count to two or three digits with an SI prefix.

    >>> [count_text(count) for count in (0, 999, 1536, 33685504, 551903297536)]
    ['0', '999', '1.5 k', '34 M', '552 G']
    """
    scaled, unit = float(count), 0
    # 999.5 and above would round to 1000.
    while scaled >= 999.5 and unit < len(UNITS) - 1:
        scaled, unit = scaled / 1000, unit + 1
    if unit == 0:
        return str(count)
    return f"{scaled:.1f} {UNITS[unit]}" if scaled < 9.95 else f"{scaled:.0f} {UNITS[unit]}"


def spaced(count: int) -> str:
    """A count with a thousands separator.

    >>> spaced(16384) == "16\\u202f384"
    True
    """
    return f"{count:,}".replace(",", "\u202f")


def weight_text(weight: float) -> str:
    """A weight to two decimals, with a minus sign.

    >>> [weight_text(weight) for weight in (0.0, 0.004, 0.234, -1.5)]
    ['0', '<0.01', '0.23', '−1.50']
    """
    if weight == 0:
        return "0"
    if abs(weight) < 0.01:
        return "<0.01" if weight > 0 else ">−0.01"
    return f"{weight:.2f}".replace("-", "−")


def factor_text(factor: float) -> str:
    """A factor to one decimal.

    >>> [factor_text(factor) for factor in (2.0, 3.9961, 2.347)]
    ['×2', '×4', '×2.3']
    """
    return f"×{factor:.1f}".removesuffix(".0")


def seconds_text(seconds: float) -> str:
    """A time to three digits in s, ms or µs.

    >>> [seconds_text(seconds) for seconds in (2.5e-6, 0.00123, 0.0999, 12.3, 4000.0)]
    ['2.50 µs', '1.23 ms', '99.9 ms', '12.3 s', '4000 s']
    """
    unit, scaled = "s", seconds
    for smaller in ("ms", "µs"):
        if scaled >= 1:
            break
        unit, scaled = smaller, scaled * 1000
    return f"{three_digits(scaled)} {unit}"


def bytes_text(count: int) -> str:
    """Bytes to three digits with a binary prefix.

    >>> [bytes_text(count) for count in (0, 512, 1536, 3 * 2**30)]
    ['0 B', '512 B', '1.50 KiB', '3.00 GiB']
    """
    unit, scaled = "B", float(count)
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if scaled < 1023.5:
            break
        unit, scaled = larger, scaled / 1024
    return f"{count} B" if unit == "B" else f"{three_digits(scaled)} {unit}"


def three_digits(number: float) -> str:
    """A number of at least 1 to three significant digits, or all integer digits.

    >>> [three_digits(number) for number in (1.234, 12.34, 123.4, 1234.5)]
    ['1.23', '12.3', '123', '1234']
    """
    if number < 9.995:
        return f"{number:.2f}"
    return f"{number:.1f}" if number < 99.95 else f"{number:.0f}"


def duration_text(seconds: float) -> str:
    """A duration to three digits, up to hours.

    >>> [duration_text(seconds) for seconds in (0.25, 48.2, 191.0, 4310.0)]
    ['250 ms', '48.2 s', '3.2 min', '1.20 h']
    """
    if seconds < 100:
        return seconds_text(seconds)
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 60 else f"{three_digits(minutes / 60)} h"


def percent_text(fraction: float) -> str:
    """A fraction in percent, without trailing decimals.

    >>> [percent_text(fraction) for fraction in (0.1, 0.005, 0.123, 1.0)]
    ['10 %', '0.5 %', '12 %', '100 %']
    """
    percent = 100 * fraction
    return f"{percent:.0f} %" if percent >= 1 or percent == 0 else f"{percent:.1g} %"
