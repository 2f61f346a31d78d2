"""Random events for property-based tests; needs hypothesis (``pip install privet[dev]``).

Every strategy avoids extreme values; extremes belong in tables of named cases.
"""

from hypothesis import strategies as st

from privet.adjacency import AddRemove, Adjacency, ReplaceOne, ZeroOut
from privet.events import (
    BandedNoise,
    Compose,
    DiscreteGaussian,
    DiscreteGaussianShares,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    FixedSize,
    Gaussian,
    Laplace,
    Opaque,
    Parallel,
    Poisson,
    RandomizedResponse,
    Repeat,
    ReportNoisyMax,
    SparseVector,
    TreeNoise,
)

__all__ = [
    "adjacencies",
    "gaussians",
    "laplaces",
    "leaves",
    "noise_multipliers",
    "rates",
    "sampled",
    "trees",
]

noise_multipliers: st.SearchStrategy[float] = st.floats(0.5, 20.0)
rates: st.SearchStrategy[float] = st.floats(0.005, 0.9)
_losses: st.SearchStrategy[float] = st.floats(0.05, 2.0)
adjacencies: st.SearchStrategy[Adjacency] = st.sampled_from((AddRemove(), ReplaceOne(), ZeroOut()))

gaussians: st.SearchStrategy[Event] = st.builds(Gaussian, noise_multipliers)
laplaces: st.SearchStrategy[Event] = st.builds(Laplace, noise_multipliers)

leaves: st.SearchStrategy[Event] = st.one_of(
    gaussians,
    laplaces,
    st.builds(DiscreteGaussian, st.floats(1.0, 20.0), st.integers(1, 3)),
    st.builds(
        DiscreteGaussianShares, st.floats(2.5, 20.0), st.integers(2, 8), st.floats(1.0, 9.0), st.just(100)
    ),
    st.builds(DiscreteLaplace, st.floats(0.5, 20.0), st.integers(1, 4)),
    st.builds(RandomizedResponse, st.floats(0.55, 0.9), st.integers(2, 5)),
    st.builds(ExponentialMechanism, epsilon=_losses),
    st.builds(ReportNoisyMax, epsilon=_losses),
    st.builds(SparseVector, epsilon=_losses, positives=st.integers(1, 5)),
    st.builds(Opaque, epsilon=_losses, delta=st.sampled_from((0.0, 1e-9, 1e-6))),
    st.builds(TreeNoise, st.floats(2.0, 20.0), st.just(32), st.integers(1, 4), st.integers(1, 4)),
    st.builds(
        BandedNoise,
        st.floats(1.0, 20.0),
        st.just((1.0, 0.5, 0.25)),
        st.just(24),
        st.integers(1, 4),
        st.integers(1, 4),
    ),
)

sampled: st.SearchStrategy[Event] = st.one_of(
    st.builds(Poisson, rates, leaves),
    st.builds(FixedSize, st.integers(1, 99), st.just(100), leaves),
)

trees: st.SearchStrategy[Event] = st.recursive(
    st.one_of(leaves, sampled),
    lambda inner: st.one_of(
        st.builds(Repeat, inner, st.integers(1, 5)),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Compose(tuple(parts))),
        st.lists(inner, min_size=1, max_size=2).map(lambda parts: Parallel(tuple(parts))),
    ),
    max_leaves=4,
)
"""Events of every kind, up to three deep."""
