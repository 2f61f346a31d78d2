"""What can be asked of a table. A statistic holds public parameters only; the table is an argument elsewhere.

Bounds, categories and keys are public inputs: they come from what everybody knows about the subject, never
from a look at the rows. Values beyond the bounds count as the bound. Values that are missing (null, NaN, not
a number) do not count. Rows whose category is not listed do not count.

*How data flow*: ``statistic.py`` says what every statistic can do. Its ``queries`` says which sums get noise,
with their sensitivity (``releasing.sensitivity``), and which post-processing makes the answer.
``releasing.compiled_statistics`` calls it, ``releasing.budget_split`` chooses the noise,
``releasing.executor`` adds it to the engine's sums.

*To add a statistic*: write a module here, list the class below in ``__all__`` and ``NAMED_STATISTICS``,
export it in ``privet.releasing``, and give its option one line in ``privet.cli.options_tables``.
CONTRIBUTING has the recipe.
"""

from privet.public_calls import check_public_calls
from privet.releasing.statistics.counts import Count, Histogram, Marginal, TopK
from privet.releasing.statistics.covariance import Covariance
from privet.releasing.statistics.group_by import GroupBy
from privet.releasing.statistics.mean import Mean
from privet.releasing.statistics.quantile import Quantile
from privet.releasing.statistics.statistic import NamedStatistic, RequiredColumn, Scalar, Statistic
from privet.releasing.statistics.sums import Sum
from privet.releasing.statistics.variance import Variance

__all__ = [
    "NAMED_STATISTICS",
    "Count",
    "Covariance",
    "GroupBy",
    "Histogram",
    "Marginal",
    "Mean",
    "NamedStatistic",
    "Quantile",
    "RequiredColumn",
    "Scalar",
    "Statistic",
    "Sum",
    "TopK",
    "Variance",
]

NAMED_STATISTICS: dict[str, type[NamedStatistic]] = {
    statistic.option: statistic
    for statistic in (Count, Sum, Mean, Variance, Covariance, Quantile, Histogram, Marginal, TopK)
}
"""Each statistic by its option on the command line."""


check_public_calls(__name__)
