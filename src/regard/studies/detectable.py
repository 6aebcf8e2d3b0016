"""The smallest true difference that a study of so many seeds and pairs would have found.

"Found" means that the paired t test passes at the level that Bonferroni's correction leaves a pair, which
is the strictest that Holm's may ask for; so the power under Holm is never less. The power of a t test at
a given true difference follows from the noncentral t distribution, if the variance is known.

It is not: a handful of seeds estimates it badly, and often too low. Were the estimate taken at its word,
a study of five seeds repeated at the difference it reported would find it two times in three only, not
four in five. So the upper end of an 80 % confidence bound for the spread takes its place: four studies of
five then report a difference at which their power really is 80 % or more. (`python -m benchmarks
study_statistics` measures both.)

The variance is that of the pair's own differences. Pooling it over the whole grid would be less noisy,
but is wrong for the noisier arms when variances differ; and a difference could then be called detectable,
be observed, and still not be claimed. With the pair's own spread this cannot happen.
"""

from __future__ import annotations

import math

from scipy.special import chdtri, nctdtrinc, stdtrit

from regard.studies.verdicts import LEVEL

POWER = 0.8
SURE = 0.8
"""The share of studies whose reported difference really has that power."""


def critical_t(*, seeds: int, pairs: int) -> float:
    """How large |t| has to be when one level is shared among pairs, by Bonferroni's rule."""
    return -float(stdtrit(seeds - 1, LEVEL / (2 * pairs)))


def detectable_in_errors(*, seeds: int, pairs: int) -> float:
    """The difference found with 80 % power, in true standard errors of the mean difference."""
    return float(nctdtrinc(seeds - 1, 1 - POWER, critical_t(seeds=seeds, pairs=pairs)))


def spread_factor(*, seeds: int) -> float:
    """What an estimated spread is multiplied by so as to exceed the true one in 80 % of studies."""
    return math.sqrt((seeds - 1) / float(chdtri(seeds - 1, SURE)))


def detectable_difference(standard_error: float, *, seeds: int, pairs: int) -> float:
    """The smallest detectable difference, from the estimated standard error of the mean difference."""
    return (
        detectable_in_errors(seeds=seeds, pairs=pairs) * spread_factor(seeds=seeds) * standard_error
    )
