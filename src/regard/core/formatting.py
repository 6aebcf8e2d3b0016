"""How numbers, units and names are written, in terminals, pages, figures and sentences.

A measured number has at most four significant digits; a count of items or steps is written in full.
Negative numbers have a minus sign (−), thousands a comma.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")
BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
MAX_DIGITS = 4
YEAR = 365 * 86400.0
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# Units of an axis by kind of quantity, ascending: name and size.
UNITS: dict[str, tuple[tuple[str, float], ...]] = {
    "flops": tuple((f"{prefix}FLOPs", 1e3**power) for power, prefix in enumerate(PREFIXES)),
    "bytes": tuple((name, 1024.0**power) for power, name in enumerate(BINARY)),
    "seconds": (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)),
    "count": (("", 1.0), ("thousands", 1e3), ("millions", 1e6), ("billions", 1e9)),
}


def axis_unit(quantity: str, largest: float) -> tuple[str, float]:
    """The largest unit of which there are at least two, and its size; counts in full below 20,000.

    >>> axis_unit("seconds", 200.0), axis_unit("count", 15_000.0), axis_unit("flops", 3e12)
    (('min', 60.0), ('', 1.0), ('TFLOPs', 1000000000000.0))
    """
    units = UNITS[quantity]
    fitting = [unit for unit in units if largest >= 2 * unit[1]]
    return units[0] if not fitting or (quantity == "count" and largest < 2e4) else fitting[-1]


def count_text(count: int | float) -> str:
    """A count to two or three digits with an SI prefix.

    >>> [count_text(count) for count in (0, 999, -1536, 33685504, 551903297536)]
    ['0', '999', '−1.5 k', '34 M', '552 G']
    """
    scaled, unit = float(count), 0
    # 999.5 and above would round to 1000.
    while abs(scaled) >= 999.5 and unit < len(PREFIXES) - 1:
        scaled, unit = scaled / 1000, unit + 1
    text = f"{scaled:.1f}" if unit and abs(scaled) < 9.95 else f"{scaled:.0f}"
    return f"{text} {PREFIXES[unit]}".rstrip().replace("-", "−")


def flops_text(flops: int | float) -> str:
    """FLOPs to two or three digits.

    >>> [flops_text(flops) for flops in (999, 1536, 516e9)]
    ['999 FLOPs', '1.5 kFLOPs', '516 GFLOPs']
    """
    number, _, prefix = count_text(flops).partition(" ")
    return f"{number} {prefix}FLOPs"


def integer_text(count: int) -> str:
    """An integer in full.

    >>> integer_text(-16384)
    '−16,384'
    """
    return f"{count:,}".replace("-", "−")


def counted(number: int, noun: str) -> str:
    """A number with its noun in singular or plural.

    >>> counted(1, "seed"), counted(6374, "item"), counted(2, "class")
    ('1 seed', '6,374 items', '2 classes')
    """
    plural = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{integer_text(number)} {noun}{plural}"


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """Things with their numbers.

    >>> numbered("seed", [3, 4]), numbered("seed", [0])
    ('seeds 3, 4', 'seed 0')
    """
    return f"{noun}{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"


def rate_text(rate: float) -> str:
    """A setting such as a learning rate, as it is typed.

    >>> rate_text(0.0003), rate_text(1e-5)
    ('0.0003', '1e-05')
    """
    return f"{rate:g}"


def weight_text(weight: float) -> str:
    """An attention weight to two decimals.

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


def ratio_text(ratio: float) -> str:
    """A ratio to one decimal, or two digits if it is small.

    >>> [ratio_text(ratio) for ratio in (8.0, 1.04, 0.125)]
    ['8.0', '1.0', '0.12']
    """
    return f"{ratio:.1f}" if ratio >= 0.95 else f"{ratio:.2g}"


def percent_text(fraction: int | float) -> str:
    """A fraction in percent, without trailing decimals; only all of something is 100 %.

    >>> [percent_text(fraction) for fraction in (0.1, 0.005, -0.123, 0.996, 0.9999, 1.0)]
    ['10 %', '0.5 %', '−12 %', '99.6 %', '> 99.9 %', '100 %']
    """
    percent = 100 * fraction
    if 99.5 <= percent < 100:
        return f"{percent:.1f} %" if percent < 99.95 else "> 99.9 %"
    text = f"{percent:.0f} %" if abs(percent) >= 1 or percent == 0 else f"{percent:.1g} %"
    return text.replace("-", "−")


def seconds_text(seconds: int | float) -> str:
    """A time to three digits in s, ms or µs.

    >>> [seconds_text(seconds) for seconds in (0, 2.5e-6, 0.00123, 0.0999, 12.3, 4000.0)]
    ['0 s', '2.50 µs', '1.23 ms', '99.9 ms', '12.3 s', '4,000 s']
    """
    if seconds == 0:
        return "0 s"
    unit, scaled = "s", seconds
    for smaller in ("ms", "µs"):
        if scaled >= 1:
            break
        unit, scaled = smaller, scaled * 1000
    return f"{three_digits(scaled)} {unit}"


def duration_text(seconds: int | float) -> str:
    """A duration, in two units from a minute on.

    >>> [duration_text(seconds) for seconds in (0.25, 48.2, 80.0, 4310.0, 200_000.0, 1e9)]
    ['250 ms', '48.2 s', '1 min 20 s', '1 h 12 min', '2 d 8 h', '31.7 years']
    """
    if seconds >= 2 * YEAR:
        return f"{three_digits(seconds / YEAR)} years"
    if seconds < 59.95:
        return seconds_text(seconds)
    (whole, rest), names = divmod(round(seconds), 60), ("min", "s")
    if whole >= 60:
        (whole, rest), names = divmod(round(seconds / 60), 60), ("h", "min")
    if names[0] == "h" and whole >= 24:
        (whole, rest), names = divmod(round(seconds / 3600), 24), ("d", "h")
    return f"{whole} {names[0]} {rest} {names[1]}" if rest else f"{whole} {names[0]}"


def bytes_text(count: int | float) -> str:
    """Bytes to three digits with a binary prefix.

    >>> [bytes_text(count) for count in (0, 512, 1536, 3 * 2**30)]
    ['0 B', '512 B', '1.50 KiB', '3.00 GiB']
    """
    unit, scaled = 0, float(count)
    while scaled >= 1023.5 and unit < len(BINARY) - 1:
        scaled, unit = scaled / 1024, unit + 1
    return f"{count:.0f} B" if unit == 0 else f"{three_digits(scaled)} {BINARY[unit]}"


def quantity_text(number: int | float, quantity: str) -> str:
    """A number of FLOPs, bytes, seconds or things, in the unit that fits it."""
    write = {
        "flops": flops_text,
        "bytes": bytes_text,
        "seconds": duration_text,
        "count": count_text,
    }
    return write[quantity](number)


def three_digits(number: float) -> str:
    """A number of at least 1 to three significant digits, or all integer digits.

    >>> [three_digits(number) for number in (1.234, 12.34, 123.4, 1234.5)]
    ['1.23', '12.3', '123', '1,234']
    """
    if number < 9.995:
        return f"{number:.2f}"
    return f"{number:.1f}" if number < 99.95 else f"{number:,.0f}"


def number_text(number: int | float, *, digits: int = 3) -> str:
    """A number to `digits` significant digits, in scientific notation if very large or small.

    >>> [number_text(number) for number in (0.0, 1.0, 0.03912, -12.345, 12345.6, 4e-16, 1e6)]
    ['0', '1', '0.0391', '−12.3', '12,346', '4·10⁻¹⁶', '10⁶']
    """
    if number == 0:
        return "0"
    if not math.isfinite(number):
        return {"nan": "none", "inf": "∞", "-inf": "−∞"}[str(number)]
    if 1e-3 <= abs(number) < 1e5:
        # All integer digits: 12,345, not 12,300.
        long = abs(number) >= min(10.0**digits, 1000.0)
        return (f"{number:,.0f}" if long else f"{number:.{digits}g}").replace("-", "−")
    mantissa, _, power = f"{number:.{digits - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".").replace("-", "−")
    raised = f"10{str(int(power)).translate(_SUPERSCRIPTS)}"
    return raised if mantissa == "1" else f"{mantissa}·{raised}"


def tick_text(tick: float) -> str:
    """The label of a tick of an axis, with all its digits.

    >>> [tick_text(tick) for tick in (0.5, 10.0, -2.0, 20000.0, 1e-5)]
    ['0.5', '10', '−2', '20,000', '10⁻⁵']
    """
    if tick and not 1e-4 <= abs(tick) < 1e6:
        return number_text(tick, digits=6)
    return f"{tick:,.10f}".rstrip("0").rstrip(".").replace("-", "−")


def score_text(score: int | float | None, *, decimals: int, signed: bool = False) -> str:
    """A score, or with `signed` a difference of scores, to four digits at most; a dash for None.

    >>> [score_text(score, decimals=2, signed=True) for score in (8.512, -0.4, -0.001, 123.45)]
    ['+8.51', '−0.40', '0.00', '+123.5']
    >>> score_text(0.41304, decimals=4), score_text(1.41304, decimals=4), score_text(5e21, decimals=2)
    ('0.4130', '1.413', '5·10²¹')
    """
    if score is None:
        return "–"
    if abs(score) >= 1e5:
        return ("+" if signed and score > 0 else "") + number_text(score, digits=MAX_DIGITS)
    score = round(score, decimals) or 0.0  # not −0
    integer_digits = len(f"{abs(score):.0f}") if abs(score) >= 1 else 0
    decimals = max(0, min(decimals, MAX_DIGITS - integer_digits))
    text = f"{score:+,.{decimals}f}" if signed and score else f"{score:,.{decimals}f}"
    return text.replace("-", "−")


def interval_text(
    low: float | None, high: float | None, *, decimals: int, signed: bool = False
) -> str:
    """An interval as "low to high"; empty if there is none."""
    if low is None or high is None:
        return ""
    return " to ".join(score_text(end, decimals=decimals, signed=signed) for end in (low, high))


def p_text(p: float) -> str:
    """A p-value to at most three decimals.

    >>> p_text(0.00012), p_text(0.0312), p_text(1.0)
    ('< 0.001', '0.031', '1')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}".rstrip("0").rstrip(".")


def truncate(text: str, max_length: int) -> str:
    """The text, truncated with an ellipsis.

    >>> truncate("additive", 5)
    'addi…'
    """
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def printable(text: str) -> str:
    """The text with unprintable characters escaped.

    >>> printable("tab\\there")
    'tab\\\\there'
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def aligned(rows: Sequence[Sequence[str]], *, left: Sequence[int]) -> list[str]:
    """Rows as lines with aligned columns; those in `left` are left-aligned, others right-aligned.

    >>> aligned([("a", "1"), ("bcd", "23")], left=[0])
    ['a     1', 'bcd  23']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def wrapped(text: str, width: int) -> str:
    """A text in lines of at most `width`, 20 or more."""
    return textwrap.fill(text, width=max(width, 20), break_on_hyphens=False)


def setting_text(value: object) -> str:
    """The value of an option, as JSON writes it but for quotes."""
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def flat_settings(settings: Mapping[str, Any], *, prefix: str = "") -> dict[str, str]:
    """Nested settings as dotted names, values as text.

    >>> flat_settings({"model": {"mechanism": "dot", "heads": 4}, "seed": None})
    {'model.mechanism': 'dot', 'model.heads': '4', 'seed': 'null'}
    """
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat_settings(value, prefix=f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = setting_text(value)
    return found
