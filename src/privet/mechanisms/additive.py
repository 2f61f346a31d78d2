"""What Laplace and Gaussian noise have in common: the grid, the event, and the checks of a query."""

import math

from privet.adjacency import Adjacency
from privet.arguments import positive
from privet.errors import InvalidArgument, NotProved
from privet.events import DiscreteGaussian, DiscreteLaplace, Event, Repeat
from privet.mechanisms.grids import StepGrid, grid_below
from privet.mechanisms.noise_scales import check_scale
from privet.mechanisms.queries import CoordinateQuery, check_query

__all__ = [
    "check_counts",
    "check_grid",
    "coordinate_query",
    "event_of",
    "grid_for",
]

_BITS = 10  # the distance between neighbours is cut into at least 2¹⁰ steps
_FAR = 16.0  # if the noise is smaller than 1/16 of the distance, then the noise is cut into at least 2⁶ steps


def grid_for(distance: float, scale: float, most_steps: float = math.inf) -> StepGrid:
    """A grid well below the noise, from public numbers alone.

    ``most_steps`` bounds the noise scale in steps, as long as the distance keeps one step.
    """
    grid = grid_below(min(distance, _FAR * scale), _BITS)
    while scale > most_steps * grid.granularity and 2 * grid.granularity <= distance:
        grid = StepGrid(2 * grid.granularity)
    return grid


def check_grid(granularity: float, distance: float) -> StepGrid:
    """A grid that was given: a power of two that does not exceed the distance that one unit moves."""
    grid = StepGrid(positive("granularity", granularity))
    if granularity > distance:
        raise InvalidArgument(
            f"'granularity' must not exceed the distance of {distance:g} that one unit moves a coordinate, "
            f"got {granularity!r}, because the distance would be rounded up to it. Leave it out, or choose "
            f"a finer one."
        )
    return grid


def coordinate_query(query: object) -> CoordinateQuery:
    """A query that bounds each of its coordinates."""
    check_query(query)
    if not isinstance(query, CoordinateQuery):
        raise NotProved(
            f"Noise on each coordinate is proved for queries that bound each coordinate, and "
            f"{type(query).__name__} bounds only the Euclidean norm. Use BoxSum, or Gaussian noise."
        )
    return query


def check_counts(query: CoordinateQuery) -> None:
    """A query whose answer consists of whole numbers."""
    if not query.counts:
        raise InvalidArgument(
            f"'query' must have an answer of whole numbers, got {type(query).__name__}. "
            f"Use Laplace or Gaussian, which put real numbers on a grid."
        )


def event_of(
    kind: type[DiscreteLaplace] | type[DiscreteGaussian],
    scale: float,
    query: CoordinateQuery,
    adjacency: Adjacency,
    grid: StepGrid,
) -> Event:
    """The event of noise of ``scale`` steps on every coordinate, of which one unit moves only some."""
    steps, distance = query.steps(adjacency, grid), adjacency.contribution_distance
    contribution = steps // distance if steps % distance == 0 else steps / distance
    single, touched = kind(check_scale(scale), contribution), query.touched_coordinates(adjacency)
    return single if touched == 1 else Repeat(single, touched)
