"""What one head and two heads can select and average, and a worked example of self-attention.

A head copies vⱼ, or averages v_a and v_b, as well as its scores stand apart. Scores are dot products,
unscaled. The keys with noise are those of `drawn_keys.py`, the example is that of `three_inputs.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import sympy
import torch

from regard.claims.engine import claim, last_that_holds
from regard.claims.experiments.selection import (
    BETA,
    A,
    average_error,
    averaging_picture,
    copy_distance,
    copy_error,
    copying_picture,
    drawn_basis,
    drawn_keys,
    errors,
    errors_picture,
    head_weights,
    inputs_of,
    matrices_of,
    mean_error,
    noise_picture,
    plain_outputs,
    queries_picture,
    share_of,
    spread,
    spread_picture,
    swing_picture,
    symbolic_basis,
    symbolic_errors,
    two_head_weights,
)
from regard.core.records.claim import Finding, MatrixPicture, Verdict
from regard.studies.statistics.paired import seed_interval

# No query of use is longer: exp would overflow without the maximum taken off.
LARGEST = 1e4
# Two figures found in different ways are the same to this share.
SAME = 1e-6
PARTS = 10
# Nearer to 0 or to 1 the float64 of 1 − e would decide.
ERRORS = (1e-9, 0.999)
SWINGS = {"n": (2, 32), "alpha": (0, 10), "size": (1e-3, LARGEST), "draws": (200, 20_000)}


@claim(
    statement="A head copies one value to within an error e as soon as its key leads by a finite score.",
    formula="1 − αⱼ ≤ e ⇔ gap ≥ ln((n − 1)(1 − e)/e)",
    source="seed 003, question 1a; Luong et al. 2015 for the score",
    proof="numeric",
    ranges={"n": (1, 1024), "error": ERRORS},
)
def copying_takes_a_finite_gap(*, n: int = 16, error: float = 0.001) -> Finding:
    """Search for the least gap that will do, and hold it against the formula."""
    found = least_that_will_do(lambda gap: copy_error(gap, n=n), error=error)
    said = log_of((n - 1) * (1 - error) / error)
    agrees = math.isclose(found, said, rel_tol=SAME, abs_tol=SAME)
    return Finding(
        verdict=verdict_of(found, agrees=agrees),
        because=(
            f"With {n} keys, the others together get less than {error:g} {from_on('a gap', found)}; the "
            f"formula says {from_on('a gap', said)} (float64, allowed to differ by a millionth)."
        ),
        figures={"found": number_or_word(found), "formula": number_or_word(said)},
        picture=copying_picture(n=n, error=error, gap=said),
        boundary=f"the key leads all others by {said:.3f} = ln((n − 1)(1 − e)/e), n = {n}, e = {error:g}",
        counter_example=f"n = {n}, e = {error:g}: found {found:.6f}, formula {said:.6f}.",
    )


@claim(
    statement="To copy one value to within an error e, the scores of all other keys must be −∞.",
    formula="|c − vⱼ| ≤ e ⇒ kᵢ·q = −∞ for i ≠ j",
    source="seed 003, question 1a",
    proof="numeric",
    marked_wrong=True,
    ranges={"n": (2, 1024), "error": ERRORS, "largest_gap": (0, LARGEST)},
)
def copying_takes_infinite_scores(
    *, n: int = 16, error: float = 0.001, largest_gap: float = 100.0
) -> Finding:
    """Try the finite gap that the error calls for, or the largest that is allowed."""
    gap = min(log_of((n - 1) * (1 - error) / error), largest_gap)
    off = copy_distance(gap, n=n)
    within = off <= (1 + SAME) * error
    told = f"the key scores {gap:.3f} and all others 0: |c − vⱼ| = {off:.6g}"
    return Finding(
        verdict="fails" if within else "holds",
        because=(
            f"With {n} keys, values that are 1 for one and 0 for all others, {told}, by dot attention in "
            f"float64. That is {'within' if within else 'not within'} e = {error:g}, to a millionth of it. "
            "Only an error of exactly 0 would take −∞."
        ),
        figures={"gap": gap, "distance": off},
        picture=copying_picture(n=n, error=error, gap=gap),
        counter_example=f"n = {n}, e = {error:g}: {told}." if within else "",
    )


@claim(
    statement="For orthonormal keys the query C(k_a + k_b) gives ½(v_a + v_b) once C is large enough.",
    formula="1 − α_a − α_b ≤ e ⇔ C ≥ ln((n − 2)(1 − e)/(2e))",
    source="seed 003, question 1b",
    proof="numeric",
    ranges={"n": (2, 1024), "error": ERRORS},
)
def one_query_averages_two_values(*, n: int = 16, error: float = 0.001) -> Finding:
    """Search for the least C that will do, and hold it against the formula."""
    found = least_that_will_do(lambda c: average_error(c, n=n), error=error)
    said = log_of((n - 2) * (1 - error) / (2 * error))
    agrees = math.isclose(found, said, rel_tol=SAME, abs_tol=SAME)
    return Finding(
        verdict=verdict_of(found, agrees=agrees),
        because=(
            f"With {n} keys, those other than a and b get less than {error:g} {from_on('C', found)}; the "
            f"formula says {from_on('C', said)} (float64, allowed to differ by a millionth)."
        ),
        figures={"found": number_or_word(found), "formula": number_or_word(said)},
        picture=averaging_picture(error=error),
        boundary=f"C ≥ {said:.3f} = ln((n − 2)(1 − e)/(2e)) for n = {n} and e = {error:g}",
        counter_example=f"n = {n}, e = {error:g}: found {found:.6f}, formula {said:.6f}.",
    )


@claim(
    statement="For keys with noise αI the query C(μ_a + μ_b) gives ½(v_a + v_b) as well, until C is so "
    "large that it weighs the noise.",
    formula="kᵢ ~ N(μᵢ, αI):  2C√α ≪ 1 ⇒ c ≈ ½(v_a + v_b)",
    source="seed 003, question 1c (i), which says the proof is that without noise",
    proof="measured",
    ranges={"n": (2, 32), "alpha": (0, 10), "error": (1e-6, 0.9), "draws": (2, 5000)},
)
def noisy_keys_are_averaged(
    *, n: int = 8, alpha: float = 1e-4, error: float = 0.1, draws: int = 500, seed: int = 0
) -> Finding:
    """Find the range of C in which the mean error over draws is within bounds, on both sides."""
    keys = drawn_keys(n=n, alpha=alpha, swings=False, draws=draws, seed=seed).keys
    largest = 100 / alpha**0.5 if alpha > 0 else LARGEST  # 2C√α = 200, if there is noise to weigh
    sizes = [2.0**half for half in torch.arange(-2, 12, 0.5).tolist()]
    means = [mean_error(keys, c) for c in sizes]
    best = min(range(len(sizes)), key=means.__getitem__)
    low, high = bounds_about(lambda c: mean_error(keys, c) <= error, sizes[best], largest=largest)
    works, too_large = means[best] <= error, high < largest
    ends = f", {mean_error(keys, largest):.2f} at C = {largest:.4g}"
    return Finding(
        # Without noise there is none to weigh, and no C is too large.
        verdict="holds if" if works and too_large == (alpha > 0) else "fails",
        because=(
            f"The mean error over {draws} draws is least, {means[best]:.3f}, at C = {sizes[best]:.3g}"
            f"{ends}: {'a larger C weighs the noise as well' if too_large else 'no C is too large'}."
        ),
        figures={"low": low, "high": high, "least_error": means[best]}
        | {"last_error": mean_error(keys, largest), "high_times_noise": 2 * high * alpha**0.5},
        picture=noise_picture(sizes, keys, error=error, alpha=alpha),
        boundary=(
            f"{low:.2f} ≤ C"
            + (f" ≤ {high:.2f}, which is 2C√α ≤ {2 * high * alpha**0.5:.2f}" if too_large else "")
            + f", for a mean error of {error:g} with n = {n} and α = {alpha:g}"
        ),
        counter_example=f"α = {alpha:g}: the best C, {sizes[best]:.3g}, is off by {means[best]:.2f}{ends}.",
    )


@claim(
    statement="Where the length of k_a swings, one head swings between v_a and v_b.",
    formula="Σ_a = αI + ½μ_aμ_aᵀ:  α_a ≈ σ(C(ε − 1)), ε ~ N(1, ½)",
    source="seed 003, question 1c (ii)",
    proof="measured",
    ranges=SWINGS,
)
def one_head_swings(
    *, n: int = 8, alpha: float = 1e-4, size: float = 20.0, draws: int = 4000, seed: int = 0
) -> Finding:
    """Count the draws in which one of the two values gets nine tenths of what the two get."""
    found = drawn_keys(n=n, alpha=alpha, swings=True, draws=draws, seed=seed)
    weights = head_weights(found.keys, of_a=size, of_b=size)
    # Where another key takes all, neither of the two has the larger part.
    of_a = (weights[:, 0] / weights[:, :2].sum(dim=1)).nan_to_num(nan=0.5)
    one_sided = share_of((of_a - 0.5).abs() >= 0.4)
    return Finding(
        verdict="holds" if one_sided.low > 0.5 else "fails",
        because=(
            f"At C = {size:g}, in {100 * one_sided.share:.1f} % of {draws} draws (95 % interval "
            f"{100 * one_sided.low:.1f} to {100 * one_sided.high:.1f}) one of them gets at least 0.9. The "
            f"weight of v_a has a variance of {float(of_a.var()):.3f}; it cannot exceed 0.25."
        ),
        figures={
            "share": one_sided.share,
            "low": one_sided.low,
            "high": one_sided.high,
            "variance": float(of_a.var()),
        },
        picture=swing_picture(found, of_a.tolist(), size=size),
        counter_example=(
            ""
            if one_sided.low > 0.5
            else f"C = {size:g}: only {100 * one_sided.share:.1f} % are one-sided."
        ),
    )


@claim(
    statement="Two heads, one for each key, swing less than one head for both.",
    formula="q₁ = Cμ_a, q₂ = Cμ_b, c = ½(c₁ + c₂):  var(c) < var(one head)",
    source="seed 003, question 1d",
    proof="measured",
    ranges=SWINGS,
)
def two_heads_swing_less(
    *, n: int = 8, alpha: float = 1e-4, size: float = 20.0, draws: int = 4000, seed: int = 0
) -> Finding:
    """Divide the variances, part of the draws by part."""
    keys = drawn_keys(n=n, alpha=alpha, swings=True, draws=draws, seed=seed).keys
    one = head_weights(keys, of_a=size, of_b=size)
    two = two_head_weights(keys, size=size)
    parts = zip(one.tensor_split(PARTS), two.tensor_split(PARTS), strict=True)
    interval = seed_interval([spread(second) / spread(first) for first, second in parts])
    ratio = spread(two) / spread(one)
    less = interval is not None and interval.high < 1
    return Finding(
        verdict="holds" if less else "fails",
        because=(
            f"At C = {size:g} the variance of the output is {spread(one):.4f} with one head and "
            f"{spread(two):.4f} with two, {ratio:.3f} times (95 % interval over {PARTS} parts of {draws} "
            f"draws: {interval.low:.3f} to {interval.high:.3f})."
            if interval
            else "The draws do not vary."
        ),
        figures={
            "one": spread(one),
            "two": spread(two),
            "ratio": ratio,
            "high": interval.high if interval else ratio,
        },
        picture=spread_picture(keys),
        counter_example="" if less else f"C = {size:g}: {ratio:.3f} times the variance.",
    )


@claim(
    statement="Two heads average the swing out entirely.",
    formula="c₁ ≈ v_a and c₂ ≈ v_b in every draw",
    source="seed 003, question 1d (ii)",
    proof="measured",
    marked_wrong=True,
    ranges=SWINGS,
)
def two_heads_never_miss(
    *, n: int = 8, alpha: float = 1e-4, size: float = 100.0, draws: int = 4000, seed: int = 0
) -> Finding:
    """Count the draws in which the first head gives v_a less than half."""
    found = drawn_keys(n=n, alpha=alpha, swings=True, draws=draws, seed=seed)
    of_a = head_weights(found.keys, of_a=size, of_b=0.0)[:, A]
    missed, negative = share_of(of_a < 0.5), share_of(found.lengths < 0)
    expected = 0.5 * math.erfc(1.0)
    worst = int(found.lengths.argmin())
    return Finding(
        verdict="fails" if missed.low > 0.001 else "holds",
        because=(
            f"In {100 * missed.share:.1f} % of {draws} draws ({100 * missed.low:.1f} to "
            f"{100 * missed.high:.1f}) the first head gives v_a less than half: ε is negative in "
            f"{100 * negative.share:.1f} %, as Φ(−√2) = {100 * expected:.2f} % says, and "
            "then μ_a points away from k_a."
        ),
        figures={
            "missed": missed.share,
            "low": missed.low,
            "high": missed.high,
            "negative": negative.share,
            "expected": expected,
        },
        picture=swing_picture(found, of_a.tolist(), size=size),
        counter_example=(
            f"ε = {float(found.lengths[worst]):.3f}: the first head gives v_a a weight of "
            f"{float(of_a[worst]):.2g}."
            if missed.low > 0.001
            else ""
        ),
    )


@claim(
    statement="Adding u_c or u_d to x₂ does not make its output u_b.",
    formula="x₂ = u_a + s·u_d + t·u_c ⇒ c₂ ≉ u_b",
    source="seed 003, question 1e (i)",
    proof="numeric",
    ranges={"beta": (0.01, 100), "farthest": (0.1, 100)},
)
def no_addition_yields_u_b(*, beta: float = 3.0, farthest: float = 3.0, seed: int = 0) -> Finding:
    """Try all multiples of both; the score of x₂ with itself, β²(1 + s² + t²), is always the highest."""
    multiples = torch.linspace(-farthest, farthest, 13).tolist()
    table = [
        [distance_to_u_b(beta, seed=seed, of_d=s, of_c=t) for t in multiples] for s in multiples
    ]
    least = min(min(row) for row in table)
    alone = [distance_to_u_b(beta, seed=seed, of_d=s, of_c=1.0 - s) for s in (0.0, 1.0)]
    return Finding(
        verdict="holds" if least > 0.5 else "fails",
        because=(
            f"At β = {beta:g}, ‖c₂ − u_b‖ is {alone[0]:.3f}·β with u_c added and {alone[1]:.3f}·β with "
            f"u_d, and never below {least:.3f}·β for multiples from −{farthest:g} to {farthest:g}."
        ),
        figures={"with_u_c": alone[0], "with_u_d": alone[1], "least": least},
        picture=MatrixPicture(
            title="‖c₂ − u_b‖/β for x₂ = u_a + s·u_d + t·u_c",
            values=tuple(map(tuple, table)),
            row_labels=tuple(f"s = {s:g}" for s in multiples),
            column_labels=tuple(f"t = {t:g}" for t in multiples),
        ),
        counter_example="" if least > 0.5 else f"β = {beta:g}: as near as {least:.3f}·β.",
    )


@claim(
    statement="The matrices Q, K, V give c₁ ≈ u_b and c₂ ≈ u_b − u_c, with errors known exactly.",
    formula="‖c₁ − u_b‖ = √2·β/(e^{β²} + 2),  ‖c₂ − (u_b − u_c)‖ = √5·β/(e^{β²} + 2)",
    source="seed 003, question 1e (ii)",
    proof="symbolic",
    # exp(β²) is a float64 up to β = 26.6.
    ranges={"beta": (0.01, 26), "first": (1, 100), "second": (1, 100)},
)
def matrices_give_the_outputs(
    *, beta: float = 2.0, first: int = 2, second: int = 5, seed: int = 0
) -> Finding:
    """Work the squared errors out for every β; then compute them by dot attention at one."""
    said = [factor * BETA**2 / (sympy.exp(BETA**2) + 2) ** 2 for factor in (first, second)]
    left = [sympy.factor(one - other) for one, other in zip(symbolic_errors(), said, strict=True)]
    wanted = [math.sqrt(factor) * beta / (math.exp(beta**2) + 2) for factor in (first, second)]
    found = errors(beta, seed=seed)
    agree = all(abs(one - other) <= 1e-12 * beta for one, other in zip(found, wanted, strict=True))
    sound = left == [0, 0] and agree
    return Finding(
        verdict="holds" if sound else "fails",
        because=(
            f"For every β the squared errors differ from the formulas by {left[0]} and {left[1]}. By dot "
            f"attention at β = {beta:g} they are {found[0]:.6g} and {found[1]:.6g}."
        ),
        figures={
            "first": found[0],
            "second": found[1],
            "first_said": wanted[0],
            "second_said": wanted[1],
        },
        picture=errors_picture(seed=seed),
        counter_example="" if sound else f"β = {beta:g}: {found} found, {tuple(wanted)} said.",
    )


@claim(
    statement="With these matrices q₃ is u_c.",
    formula="q₃ = Qx₃ = u_c",
    source="seed 003, question 1e (ii)",
    proof="symbolic",
    marked_wrong=True,
    ranges={"beta": (0.01, 100), "row": (1, 3)},
)
def third_query_is_u_c(*, beta: float = 2.0, row: int = 3, seed: int = 0) -> Finding:
    """Multiply it out; the query of row 2 is the one that is u_c."""
    u = symbolic_basis()
    query = matrices_of(u, squared=BETA**2).query * inputs_of(u)[row - 1]
    drawn = drawn_basis(beta, seed=seed)
    length = float((matrices_of(drawn, squared=beta**2).query @ inputs_of(drawn)[row - 1]).norm())
    same = query == u.c
    written = tuple(query)
    return Finding(
        verdict="holds" if same else "fails",
        because=f"Qx of row {row} is {written} in the basis a, b, c, d; u_c is {tuple(u.c)}.",
        figures={"length": length, "length_of_u_c": beta, "query": str(written)},
        picture=queries_picture(beta, seed=seed),
        counter_example=(
            "" if same else f"β = {beta:g}: ‖q‖ of row {row} is {length:.2g}, ‖u_c‖ = {beta:g}."
        ),
    )


def least_that_will_do(error_at: Callable[[float], float], *, error: float) -> float:
    """From which size on the error stays below: −∞ if any will do, ∞ if none that was tried."""
    found = last_that_holds(lambda size: error_at(size) >= error, low=-LARGEST, high=LARGEST)
    if found is None:
        return -math.inf
    return math.inf if found == LARGEST else found


def log_of(ratio: float) -> float:
    """Its logarithm; that of 0, where there are no other keys, is −∞."""
    return math.log(ratio) if ratio > 0 else -math.inf


def verdict_of(found: float, *, agrees: bool) -> Verdict:
    """Where the formula is right it holds from a size on, or of any size."""
    if not agrees:
        return "fails"
    return "holds" if math.isinf(found) else "holds if"


def from_on(name: str, size: float) -> str:
    """In words."""
    if math.isinf(size):
        return f"whatever {name} is" if size < 0 else f"at no {name} up to {LARGEST:g}"
    return f"from {name} of {size:.6f} on"


def number_or_word(size: float) -> float | str:
    """A figure that a record can keep."""
    return size if math.isfinite(size) else "any" if size < 0 else "none"


def bounds_about(
    works: Callable[[float], bool], inside: float, *, largest: float
) -> tuple[float, float]:
    """From where to where something works that works about `inside`; both are it where it does not."""
    low = last_that_holds(lambda c: works(-c), low=-inside, high=0.0, halvings=25)
    high = last_that_holds(works, low=inside, high=max(inside, largest), halvings=25)
    return (inside if low is None else abs(low)), (inside if high is None else high)


def distance_to_u_b(beta: float, *, seed: int, of_d: float, of_c: float) -> float:
    """‖c₂ − u_b‖/β with these multiples added to x₂."""
    u = drawn_basis(beta, seed=seed)
    first, second, third = inputs_of(u)
    outputs = plain_outputs([first, second + of_d * u.d + of_c * u.c, third])
    return float((outputs[1] - u.b).norm()) / beta
