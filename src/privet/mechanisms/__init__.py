"""Mechanisms: private data to a noisy answer, with the event that describes it.

A mechanism is a frozen object. Its public parameters are fields, and the data is an argument of ``release``.
``event`` is what one release costs, ``charge`` writes it into a ledger, and ``error`` says beforehand how far
off an answer may be. Sensitivity follows from a bounded query, score or utility and from the adjacency.
Nobody types it in.

*How data flow*: records (``records``) → a bounded query or score in whole steps of a public grid
(``queries``, ``vector_queries``, ``scores``, ``grids``) → exact noise (``sampling``) of a scale from
``noise_scales`` → the answer.

*Where to add*: a mechanism as a module of its own, listed in ``_MODULES``; a query beside ``queries``; a
sampler in ``sampling/``.

>>> from privet.adjacency import AddRemove
>>> from privet.mechanisms import CountWhere, Laplace
>>> blue = CountWhere(lambda eyes: eyes == "blue")
>>> count = Laplace.calibrated(blue, epsilon=0.1, adjacency=AddRemove())
>>> count.scale, round(count.error(confidence=0.95))
(10.0, 30)
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

_MODULES = {
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


__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
