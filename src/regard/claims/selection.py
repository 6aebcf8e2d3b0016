"""Copying and averaging values with one head and with two heads, and a worked example of self-attention.

How well a head copies vⱼ, or averages v_a and v_b, depends on the gaps between scores. Scores are unscaled
dot products. Sampled keys and the worked example are in `experiments/selection.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import sympy
import torch

from regard.claims.engine import bisect_last_true, claim, curve_figure, line, lines, matrix_figure
from regard.claims.experiments.selection import (
    BETA,
    LOG_FLOOR,
    A,
    average_error,
    averaging_error,
    copy_error,
    copy_output_error,
    copying_figure,
    errors,
    head_weights,
    inputs_of,
    matrices_of,
    mean_error,
    output_variance,
    plain_outputs,
    proportion,
    random_basis,
    sampled_keys,
    symbolic_basis,
    symbolic_errors,
    two_head_weights,
    weight_scatter_figure,
)
from regard.core.records.claim import Finding, Verdict
from regard.studies.statistics.paired import seed_interval

# Upper end of the search for query norms.
MAX_SIZE = 1e4
# Relative tolerance for two numbers computed in different ways.
RELATIVE_TOLERANCE = 1e-6
BATCHES = 10
# Closer to 0 or 1, float64 rounding of 1 − e would decide.
ERRORS = (1e-9, 0.999)
KEY_RANGES = {"n": (2, 32), "alpha": (0, 10), "size": (1e-3, MAX_SIZE), "samples": (200, 20_000)}


@claim(
    statement="A head copies one value with an error of at most e if its key has a finite score gap.",
    formula="1 − αⱼ ≤ e ⇔ gap ≥ ln((n − 1)(1 − e)/e)",
    source="course notes: multi-head attention; score of Luong et al. 2015",
    proof="numeric",
    ranges={"n": (1, 1024), "error": ERRORS},
)
def copying_needs_a_finite_score_gap(*, n: int = 16, error: float = 0.001) -> Finding:
    """Find the smallest sufficient gap by bisection and compare it with the formula."""
    found = smallest_sufficient(lambda gap: copy_error(gap, n=n), error=error)
    expected = log_of((n - 1) * (1 - error) / error)
    agrees = math.isclose(found, expected, rel_tol=RELATIVE_TOLERANCE, abs_tol=RELATIVE_TOLERANCE)
    return Finding(
        verdict=verdict_of(found, agrees=agrees),
        reason=f"With {n} keys, the total weight of the others is below {error:g} "
        f"{threshold_text('gap', found)}; by the formula {threshold_text('gap', expected)} "
        "(float64, relative tolerance 1e-6).",
        values={"found": finite_or_text(found), "formula": finite_or_text(expected)},
        figure=copying_figure(n=n, error=error, gap=expected),
        condition=f"score gap ≥ {expected:.3f} = ln((n − 1)(1 − e)/e), n = {n}, e = {error:g}",
        counter_example=f"n = {n}, e = {error:g}: found {found:.6f}, formula {expected:.6f}.",
    )


@claim(
    statement="To copy one value with an error of at most e, the scores of all other keys must be −∞.",
    formula="|c − vⱼ| ≤ e ⇒ kᵢ·q = −∞ for i ≠ j",
    source="course notes: multi-head attention",
    proof="numeric",
    known_false=True,
    ranges={"n": (2, 1024), "error": ERRORS, "largest_gap": (0, MAX_SIZE)},
)
def copying_needs_infinite_scores(
    *, n: int = 16, error: float = 0.001, largest_gap: float = 100.0
) -> Finding:
    """Compute the output error with the sufficient gap, or with the largest gap allowed."""
    gap = min(log_of((n - 1) * (1 - error) / error), largest_gap)
    output_error = copy_output_error(gap, n=n)
    within = output_error <= (1 + RELATIVE_TOLERANCE) * error
    summary = f"the key scores {gap:.3f} and all others 0: |c − vⱼ| = {output_error:.6g}"
    return Finding(
        verdict="fails" if within else "holds",
        reason=f"With {n} keys, one value 1 and all others 0, {summary} by dot attention in float64, "
        f"{'within' if within else 'not within'} e = {error:g} (relative tolerance 1e-6). Only an "
        "error of exactly 0 needs −∞.",
        values={"gap": gap, "distance": output_error},
        figure=copying_figure(n=n, error=error, gap=gap),
        counter_example=f"n = {n}, e = {error:g}: {summary}.",
    )


@claim(
    statement="For orthonormal keys the query C(k_a + k_b) gives ½(v_a + v_b) if C is large enough.",
    formula="1 − α_a − α_b ≤ e ⇔ C ≥ ln((n − 2)(1 − e)/(2e))",
    source="course notes: multi-head attention",
    proof="numeric",
    ranges={"n": (2, 1024), "error": ERRORS},
)
def one_query_averages_two_values(*, n: int = 16, error: float = 0.001) -> Finding:
    """Find the smallest sufficient C by bisection and compare it with the formula."""
    found = smallest_sufficient(lambda c: average_error(c, n=n), error=error)
    expected = log_of((n - 2) * (1 - error) / (2 * error))
    agrees = math.isclose(found, expected, rel_tol=RELATIVE_TOLERANCE, abs_tol=RELATIVE_TOLERANCE)
    sizes = torch.linspace(0, 16, 33).tolist()
    return Finding(
        verdict=verdict_of(found, agrees=agrees),
        reason=f"With {n} keys, the total weight of keys other than a and b is below {error:g} "
        f"{threshold_text('C', found)}; by the formula {threshold_text('C', expected)} "
        "(float64, relative tolerance 1e-6).",
        values={"found": finite_or_text(found), "formula": finite_or_text(expected)},
        figure=curve_figure(
            "Total weight of the keys other than a and b",
            ("C", "1 − α_a − α_b"),
            *(
                line(f"n = {n}", sizes, [max(average_error(c, n=n), LOG_FLOOR) for c in sizes])
                for n in (4, 16, 64, 256)
            ),
            log="y",
            marks=(
                (math.log((n - 2) * (1 - error) / (2 * error)), f"n = {n}")
                for n in (4, 16, 64, 256)
            ),
        ),
        condition=f"C ≥ {expected:.3f} = ln((n − 2)(1 − e)/(2e)) for n = {n} and e = {error:g}",
        counter_example=f"n = {n}, e = {error:g}: found {found:.6f}, formula {expected:.6f}.",
    )


@claim(
    statement="For keys with noise αI the query C(μ_a + μ_b) also gives ½(v_a + v_b), unless C is so large "
    "that it amplifies the noise.",
    formula="kᵢ ~ N(μᵢ, αI):  2C√α ≪ 1 ⇒ c ≈ ½(v_a + v_b)",
    source="course notes: multi-head attention",
    proof="measured",
    ranges={"n": (2, 32), "alpha": (0, 10), "error": (1e-6, 0.9), "samples": (2, 5000)},
)
def averaging_works_with_noisy_keys(
    *, n: int = 8, alpha: float = 1e-4, error: float = 0.1, samples: int = 500, seed: int = 0
) -> Finding:
    """Find the range of C in which the mean error over samples is small enough."""
    keys = sampled_keys(n=n, alpha=alpha, varying_length=False, samples=samples, seed=seed).keys
    largest = 100 / alpha**0.5 if alpha > 0 else MAX_SIZE  # 2C√α = 200 with noise
    sizes = [2.0**half for half in torch.arange(-2, 12, 0.5).tolist()]
    means = [mean_error(keys, c) for c in sizes]
    best = min(range(len(sizes)), key=means.__getitem__)
    low, high = working_range(lambda c: mean_error(keys, c) <= error, sizes[best], largest=largest)
    works, too_large = means[best] <= error, high < largest
    ends = f", {mean_error(keys, largest):.2f} at C = {largest:.4g}"
    found = [averaging_error(head_weights(keys, of_a=c, of_b=c)) for c in sizes]
    quantiles = [
        tuple(max(float(one.quantile(q)), LOG_FLOOR) for one in found) for q in (0.05, 0.95)
    ]
    mean = line(
        "mean, 5 % to 95 % quantiles",
        sizes,
        [max(float(one.mean()), LOG_FLOOR) for one in found],
        low=quantiles[0],
        high=quantiles[1],
    )
    return Finding(
        # Without noise, no C is too large.
        verdict="holds if" if works and too_large == (alpha > 0) else "fails",
        reason=f"The mean error over {samples} samples has its minimum, {means[best]:.3f}, at "
        f"C = {sizes[best]:.3g}{ends}: "
        f"{'a larger C amplifies the noise' if too_large else 'no C is too large'}.",
        values={"low": low, "high": high, "min_error": means[best]}
        | {"last_error": mean_error(keys, largest), "high_times_noise": 2 * high * alpha**0.5},
        figure=curve_figure(
            f"Distance from ½(v_a + v_b), α = {alpha:g}",
            ("C", "error"),
            mean,
            line("tolerance", sizes, [error] * len(sizes), dashed=True),
            log="xy",
            marks=((1 / (2 * alpha**0.5), "2C√α = 1"),) if alpha > 0 else (),
        ),
        condition=(
            f"{low:.2f} ≤ C"
            + (f" ≤ {high:.2f}, which is 2C√α ≤ {2 * high * alpha**0.5:.2f}" if too_large else "")
            + f", for a mean error of {error:g} with n = {n} and α = {alpha:g}"
        ),
        counter_example=f"α = {alpha:g}: error {means[best]:.2f} at the best C = {sizes[best]:.3g}{ends}.",
    )


@claim(
    statement="If the norm of k_a varies, the output of one head jumps between v_a and v_b.",
    formula="Σ_a = αI + ½μ_aμ_aᵀ:  α_a ≈ σ(C(ε − 1)), ε ~ N(1, ½)",
    source="course notes: multi-head attention",
    proof="measured",
    ranges=KEY_RANGES,
)
def one_head_has_high_variance(
    *, n: int = 8, alpha: float = 1e-4, size: float = 20.0, samples: int = 4000, seed: int = 0
) -> Finding:
    """Count the samples in which one value has at least 0.9 of the weight of both."""
    found = sampled_keys(n=n, alpha=alpha, varying_length=True, samples=samples, seed=seed)
    weights = head_weights(found.keys, of_a=size, of_b=size)
    # NaN if both weights are zero: count as equal.
    of_a = (weights[:, 0] / weights[:, :2].sum(dim=1)).nan_to_num(nan=0.5)
    one_sided = proportion((of_a - 0.5).abs() >= 0.4)
    return Finding(
        verdict="holds" if one_sided.low > 0.5 else "fails",
        reason=f"At C = {size:g}, one value has at least 0.9 of the weight in {100 * one_sided.share:.1f} "
        f"% of {samples} samples (95 % interval {100 * one_sided.low:.1f} to "
        f"{100 * one_sided.high:.1f}). The variance of the weight of v_a is "
        f"{float(of_a.var()):.3f}; the maximum is 0.25.",
        values={**one_sided._asdict(), "variance": float(of_a.var())},
        figure=weight_scatter_figure(found, of_a.tolist(), size=size),
        counter_example=f"C = {size:g}: only {100 * one_sided.share:.1f} % of samples are one-sided.",
    )


@claim(
    statement="Two heads, one per key, have a lower output variance than one head for both.",
    formula="q₁ = Cμ_a, q₂ = Cμ_b, c = ½(c₁ + c₂):  var(c) < var(one head)",
    source="course notes: multi-head attention",
    proof="measured",
    ranges=KEY_RANGES,
)
def two_heads_reduce_variance(
    *, n: int = 8, alpha: float = 1e-4, size: float = 20.0, samples: int = 4000, seed: int = 0
) -> Finding:
    """Ratio of the variances, with an interval over batches of samples."""
    keys = sampled_keys(n=n, alpha=alpha, varying_length=True, samples=samples, seed=seed).keys
    one = head_weights(keys, of_a=size, of_b=size)
    two = two_head_weights(keys, size=size)
    batches = zip(one.tensor_split(BATCHES), two.tensor_split(BATCHES), strict=True)
    interval = seed_interval(
        [output_variance(second) / output_variance(first) for first, second in batches]
    )
    ratio = output_variance(two) / output_variance(one)
    less = interval is not None and interval.high < 1
    sizes = [2.0**step for step in range(8)]
    weights = {
        "one head": [head_weights(keys, of_a=c, of_b=c) for c in sizes],
        "two heads": [two_head_weights(keys, size=c) for c in sizes],
    }
    return Finding(
        verdict="holds" if less else "fails",
        reason=(
            f"At C = {size:g} the output variance is {output_variance(one):.4f} with one head and "
            f"{output_variance(two):.4f} with two, {ratio:.3f} times (95 % interval over {BATCHES} "
            f"batches of {samples} samples: {interval.low:.3f} to {interval.high:.3f})."
            if interval
            else "The samples do not vary."
        ),
        values={
            "one": output_variance(one),
            "two": output_variance(two),
            "ratio": ratio,
            "high": interval.high if interval else ratio,
        },
        figure=curve_figure(
            "Output variance",
            ("C", "variance"),
            *(line(name, sizes, map(output_variance, row)) for name, row in weights.items()),
            log="x",
        ),
        counter_example=f"C = {size:g}: {ratio:.3f} times the variance.",
    )


@claim(
    statement="Two heads remove the output variance entirely.",
    formula="c₁ ≈ v_a and c₂ ≈ v_b in every sample",
    source="course notes: multi-head attention",
    proof="measured",
    known_false=True,
    ranges=KEY_RANGES,
)
def two_heads_remove_variance(
    *, n: int = 8, alpha: float = 1e-4, size: float = 100.0, samples: int = 4000, seed: int = 0
) -> Finding:
    """Count the samples in which the first head gives v_a a weight below ½."""
    found = sampled_keys(n=n, alpha=alpha, varying_length=True, samples=samples, seed=seed)
    of_a = head_weights(found.keys, of_a=size, of_b=0.0)[:, A]
    missed, negative = proportion(of_a < 0.5), proportion(found.lengths < 0)
    expected = 0.5 * math.erfc(1.0)
    worst = int(found.lengths.argmin())
    return Finding(
        verdict="fails" if missed.low > 0.001 else "holds",
        reason=f"In {100 * missed.share:.1f} % of {samples} samples ({100 * missed.low:.1f} to "
        f"{100 * missed.high:.1f}) the first head gives v_a a weight below ½: ε is negative in "
        f"{100 * negative.share:.1f} % (expected: Φ(−√2) = {100 * expected:.2f} %), and then k_a "
        "points away from μ_a.",
        values={
            "missed": missed.share,
            "low": missed.low,
            "high": missed.high,
            "negative": negative.share,
            "expected": expected,
        },
        figure=weight_scatter_figure(found, of_a.tolist(), size=size),
        counter_example=f"ε = {float(found.lengths[worst]):.3f}: the first head gives v_a a weight of "
        f"{float(of_a[worst]):.2g}.",
    )


@claim(
    statement="Adding u_c or u_d to x₂ does not make its output u_b.",
    formula="x₂ = u_a + s·u_d + t·u_c ⇒ c₂ ≉ u_b",
    source="course notes: multi-head attention",
    proof="numeric",
    ranges={"beta": (0.01, 100), "max_multiple": (0.1, 100)},
)
def no_addition_yields_u_b(
    *, beta: float = 3.0, max_multiple: float = 3.0, seed: int = 0
) -> Finding:
    """Grid of multiples of both; the score of x₂ with itself, β²(1 + s² + t²), is always the highest."""
    multiples = torch.linspace(-max_multiple, max_multiple, 13).tolist()
    table = [
        [distance_to_u_b(beta, seed=seed, of_d=s, of_c=t) for t in multiples] for s in multiples
    ]
    least = min(min(row) for row in table)
    single = [distance_to_u_b(beta, seed=seed, of_d=s, of_c=1.0 - s) for s in (0.0, 1.0)]
    return Finding(
        verdict="holds" if least > 0.5 else "fails",
        reason=(
            f"At β = {beta:g}, ‖c₂ − u_b‖ is {single[0]:.3f}·β with u_c added and {single[1]:.3f}·β with "
            f"u_d, and at least {least:.3f}·β for multiples from −{max_multiple:g} to {max_multiple:g}."
        ),
        values={"with_u_c": single[0], "with_u_d": single[1], "min": least},
        figure=matrix_figure(
            "‖c₂ − u_b‖/β for x₂ = u_a + s·u_d + t·u_c",
            table,
            rows=(f"s = {s:g}" for s in multiples),
            columns=(f"t = {t:g}" for t in multiples),
        ),
        counter_example=f"β = {beta:g}: distance {least:.3f}·β.",
    )


@claim(
    statement="The matrices Q, K, V give c₁ ≈ u_b and c₂ ≈ u_b − u_c, with closed-form errors.",
    formula="‖c₁ − u_b‖ = √2·β/(e^{β²} + 2),  ‖c₂ − (u_b − u_c)‖ = √5·β/(e^{β²} + 2)",
    source="course notes: multi-head attention",
    proof="symbolic",
    # exp(β²) is a float64 up to β = 26.6.
    ranges={"beta": (0.01, 26), "first": (1, 100), "second": (1, 100)},
)
def matrices_give_the_outputs(
    *, beta: float = 2.0, first: int = 2, second: int = 5, seed: int = 0
) -> Finding:
    """Derive the squared errors symbolically for all β; then compute them at one β."""
    formulas = [factor * BETA**2 / (sympy.exp(BETA**2) + 2) ** 2 for factor in (first, second)]
    residuals = [
        sympy.factor(one - other) for one, other in zip(symbolic_errors(), formulas, strict=True)
    ]
    expected = [closed_form(factor, beta) for factor in (first, second)]
    found = errors(beta, seed=seed)
    agree = all(
        abs(one - other) <= 1e-12 * beta for one, other in zip(found, expected, strict=True)
    )
    holds = residuals == [0, 0] and agree
    betas = torch.linspace(0.25, 4, 16, dtype=torch.float64).tolist()
    computed = zip(*(errors(one, seed=seed) for one in betas), strict=True)
    stated = {f"√{f}·β/(e^β² + 2)": [closed_form(f, one) for one in betas] for f in (2, 5)}
    return Finding(
        verdict="holds" if holds else "fails",
        reason=(
            f"For all β the squared errors differ from the formulas by {residuals[0]} and {residuals[1]}. "
            f"Computed at β = {beta:g} the errors are {found[0]:.6g} and {found[1]:.6g}."
        ),
        values={
            "first": found[0],
            "second": found[1],
            "first_expected": expected[0],
            "second_expected": expected[1],
        },
        figure=curve_figure(
            "Output errors",
            ("β", "error"),
            *map(line, ("‖c₁ − u_b‖", "‖c₂ − (u_b − u_c)‖"), (betas, betas), computed),
            *lines(betas, stated, dashed=True),
            log="y",
        ),
        counter_example=f"β = {beta:g}: {found} computed, {tuple(expected)} expected.",
    )


@claim(
    statement="With these matrices the third query q₃ is u_c.",
    formula="q₃ = Qx₃ = u_c",
    source="course notes: multi-head attention",
    proof="symbolic",
    known_false=True,
    ranges={"beta": (0.01, 100), "row": (1, 3)},
)
def third_query_is_u_c(*, beta: float = 2.0, row: int = 3, seed: int = 0) -> Finding:
    """Compute it symbolically; row=2 corrects the statement."""
    u = symbolic_basis()
    query = matrices_of(u, squared=BETA**2).query * inputs_of(u)[row - 1]
    basis = random_basis(beta, seed=seed)
    matrix = matrices_of(basis, squared=beta**2).query
    queries = [matrix @ x for x in inputs_of(basis)]
    length = float(queries[row - 1].norm())
    same = query == u.c
    written = tuple(query)
    coordinates = [[float(one @ axis) / beta for axis in basis] for one in queries]
    return Finding(
        verdict="holds" if same else "fails",
        reason=f"The query of row {row} is {written} in the basis a, b, c, d; u_c is {tuple(u.c)}.",
        values={"length": length, "length_of_u_c": beta, "query": str(written)},
        figure=matrix_figure(
            "Queries in the basis u_a, u_b, u_c, u_d",
            coordinates,
            rows=("q₁", "q₂", "q₃"),
            columns=("u_a", "u_b", "u_c", "u_d"),
        ),
        counter_example=(f"β = {beta:g}: ‖q‖ of row {row} is {length:.2g}, ‖u_c‖ = {beta:g}."),
    )


def closed_form(factor: int, beta: float) -> float:
    """√factor·β/(e^{β²} + 2)."""
    return math.sqrt(factor) * beta / (math.exp(beta**2) + 2)


def smallest_sufficient(error_at: Callable[[float], float], *, error: float) -> float:
    """The size from which the error is below `error`: −∞ if always, ∞ if never."""
    found = bisect_last_true(lambda size: error_at(size) >= error, low=-MAX_SIZE, high=MAX_SIZE)
    if found is None:
        return -math.inf
    return math.inf if found == MAX_SIZE else found


def log_of(ratio: float) -> float:
    """Logarithm; −∞ for 0, if there are no other keys."""
    return math.log(ratio) if ratio > 0 else -math.inf


def verdict_of(found: float, *, agrees: bool) -> Verdict:
    """Holds from a size on, or for all sizes, if the formula is right."""
    if not agrees:
        return "fails"
    return "holds" if math.isinf(found) else "holds if"


def threshold_text(name: str, size: float) -> str:
    """The condition name ≥ size as text."""
    if math.isinf(size):
        return f"for every {name}" if size < 0 else f"for no {name} up to {MAX_SIZE:g}"
    return f"for {name} ≥ {size:.6f}"


def finite_or_text(size: float) -> float | str:
    """A finite value for a record."""
    return size if math.isfinite(size) else "any" if size < 0 else "none"


def working_range(
    works: Callable[[float], bool], inside: float, *, largest: float
) -> tuple[float, float]:
    """The interval around `inside` on which the predicate is true; `inside` twice if it is false there."""
    low = bisect_last_true(lambda c: works(-c), low=-inside, high=0.0, bisections=25)
    high = bisect_last_true(works, low=inside, high=max(inside, largest), bisections=25)
    return (inside if low is None else abs(low)), (inside if high is None else high)


def distance_to_u_b(beta: float, *, seed: int, of_d: float, of_c: float) -> float:
    """‖c₂ − u_b‖/β with these multiples added to x₂."""
    u = random_basis(beta, seed=seed)
    first, second, third = inputs_of(u)
    outputs = plain_outputs([first, second + of_d * u.d + of_c * u.c, third])
    return float((outputs[1] - u.b).norm()) / beta
