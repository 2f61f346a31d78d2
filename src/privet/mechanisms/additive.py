"""What Laplace and Gaussian noise have in common: which grid, which event, and the answer."""

import math

from privet.adjacency import Adjacency
from privet.arguments import positive
from privet.errors import InvalidArgument, NotProved
from privet.events import DiscreteGaussian, DiscreteLaplace, Event, Repeat
from privet.mechanisms.grids import Grid, grid_below
from privet.mechanisms.laws import check_scale
from privet.mechanisms.queries import CoordinateQuery, check_query

__all__ = [
    "check_counts",
    "check_grid",
    "coordinate_query",
    "event_of",
    "grid_for",
]

_BITS = 10  # the distance between neighbours is cut into at least 2¹⁰ steps
_FAR = 16.0  # unless the noise is smaller than 1/16 of it: then the noise is cut into at least 2⁶


def grid_for(distance: float, scale: float, most_steps: float = math.inf) -> Grid:
    """A grid well below the noise, from public numbers alone.

    ``most_steps`` bounds the noise scale in steps, as long as the distance keeps one step.
    """
    grid = grid_below(min(distance, _FAR * scale), _BITS)
    while scale > most_steps * grid.granularity and 2 * grid.granularity <= distance:
        grid = Grid(2 * grid.granularity)
    return grid


def check_grid(granularity: float, distance: float) -> Grid:
    """A grid that somebody chose: a power of two that is not above what one unit moves."""
    grid = Grid(positive("granularity", granularity))
    if granularity > distance:
        raise InvalidArgument(
            f"'granularity' must not exceed the distance of {distance:g} that one unit moves a coordinate, got "
            f"{granularity!r}, because the distance would be rounded up to it. Leave it out, or choose a finer one."
        )
    return grid


def coordinate_query(query: object) -> CoordinateQuery:
    """A query that bounds each of its coordinates."""
    check_query(query)
    if not isinstance(query, CoordinateQuery):
        raise NotProved(
            f"Noise on each coordinate is accounted for queries that bound each coordinate, and "
            f"{type(query).__name__} bounds only the Euclidean norm. Use BoxSum, or Gaussian noise."
        )
    return query


def check_counts(query: CoordinateQuery) -> None:
    """A query whose answer is made of whole numbers."""
    if not query.counts:
        raise InvalidArgument(
            f"'query' must have whole numbers for an answer, got {type(query).__name__}. "
            f"Use Laplace or Gaussian, which put real numbers on a grid."
        )


def event_of(
    kind: type[DiscreteLaplace] | type[DiscreteGaussian],
    scale: float,
    query: CoordinateQuery,
    adjacency: Adjacency,
    grid: Grid,
) -> Event:
    """Noise of ``scale`` steps on every coordinate, of which one unit moves only some."""
    steps, apart = query.steps(adjacency, grid), adjacency.contribution_distance
    contribution = steps // apart if steps % apart == 0 else steps / apart
    one, touched = kind(check_scale(scale), contribution), query.touched(adjacency)
    return one if touched == 1 else Repeat(one, touched)
