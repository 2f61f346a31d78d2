"""Mechanisms: private data to a noisy answer, with the event that describes it.

Each is a frozen object. Its public parameters are fields; the data is an argument of ``release``; ``event`` is what
one release costs, ``charge`` writes it into a ledger, and ``error`` says beforehand how far off an answer may be.
Sensitivity follows from a bounded query, score or utility and from the adjacency. Nobody types it in.

>>> from privet.adjacency import AddRemove
>>> from privet.mechanisms import CountWhere, Laplace
>>> blue = CountWhere(lambda eyes: eyes == "blue")
>>> count = Laplace.calibrated(blue, epsilon=0.1, adjacency=AddRemove())
>>> count.scale, round(count.error(confidence=0.95))
(10.0, 30)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from privet.public_calls import check_public_calls

_HOMES = {
    "DiscreteGaussian": "gaussian",
    "Gaussian": "gaussian",
    "BernoulliLikelihood": "interval",
    "IntervalExponential": "interval",
    "QuantileRank": "interval",
    "SumUtility": "interval",
    "DiscreteLaplace": "laplace",
    "Laplace": "laplace",
    "Mechanism": "mechanism",
    "Count": "queries",
    "CountWhere": "queries",
    "Query": "queries",
    "Sum": "queries",
    "KaryResponse": "randomized_response",
    "RandomizedResponse": "randomized_response",
    "Score": "scores",
    "SumOfScores": "scores",
    "TallyOf": "scores",
    "ExponentialMechanism": "selection",
    "PermuteAndFlip": "selection",
    "ReportNoisyMax": "selection",
    "SmallDatabase": "small_database",
    "AboveThreshold": "sparse_vector",
    "SparseVector": "sparse_vector",
    "BinaryAttributes": "vector_queries",
    "BoxSum": "vector_queries",
    "HistogramOf": "vector_queries",
    "Histograms": "vector_queries",
    "VectorSum": "vector_queries",
}

if TYPE_CHECKING:
    from privet.mechanisms.gaussian import DiscreteGaussian, Gaussian
    from privet.mechanisms.interval import BernoulliLikelihood, IntervalExponential, QuantileRank, SumUtility
    from privet.mechanisms.laplace import DiscreteLaplace, Laplace
    from privet.mechanisms.mechanism import Mechanism
    from privet.mechanisms.queries import Count, CountWhere, Query, Sum
    from privet.mechanisms.randomized_response import KaryResponse, RandomizedResponse
    from privet.mechanisms.scores import Score, SumOfScores, TallyOf
    from privet.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
    from privet.mechanisms.small_database import SmallDatabase
    from privet.mechanisms.sparse_vector import AboveThreshold, SparseVector
    from privet.mechanisms.vector_queries import BinaryAttributes, BoxSum, HistogramOf, Histograms, VectorSum

__all__ = [
    "AboveThreshold",
    "BernoulliLikelihood",
    "BinaryAttributes",
    "BoxSum",
    "Count",
    "CountWhere",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "Gaussian",
    "HistogramOf",
    "Histograms",
    "IntervalExponential",
    "KaryResponse",
    "Laplace",
    "Mechanism",
    "PermuteAndFlip",
    "QuantileRank",
    "Query",
    "RandomizedResponse",
    "ReportNoisyMax",
    "Score",
    "SmallDatabase",
    "SparseVector",
    "Sum",
    "SumOfScores",
    "SumUtility",
    "TallyOf",
    "VectorSum",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'privet.mechanisms' has no attribute {name!r}")
    return getattr(import_module(f"privet.mechanisms.{home}"), name)


def __dir__() -> list[str]:
    return __all__


check_public_calls(__name__)
