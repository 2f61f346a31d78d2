"""Zero-out adjacency: for which events a zeroed unit is the same as an absent one.

A zeroed unit keeps its place. In a sum it contributes nothing, so the sum is that of the others. Any other
mechanism may show that the place is there: randomised response gives an answer for it, and an (ε, δ) claim
under zero-out adjacency compares two databases that both have the place, so it does not say what happens
where the place is missing.

Theorems that compare "the unit is in the sample" with "the unit is not in the sample" need the two to be the
same.
"""

from collections.abc import Iterator

from privet import events
from privet.events import Event

__all__ = ["adds_contributions", "answers_each", "shows_who", "zeroed_is_absent"]

_AROUND = (events.Compose, events.Parallel, events.Poisson, events.FixedSize, events.Repeat)


def adds_contributions(event: Event) -> bool:
    """Whether the event uses only sums of the units' contributions, over all units or over a sample."""
    return all(leaf.is_sum for leaf in _leaves(event))


def answers_each(event: Event) -> bool:
    """Whether the event releases one answer for each unit."""
    return any(isinstance(leaf, events.RandomizedResponse) for leaf in _leaves(event))


def shows_who(event: Event) -> bool:
    """Whether it is seen who contributed, so that a sample is no secret."""
    return any(isinstance(leaf, events.DiscreteGaussianShares) for leaf in _leaves(event))


def zeroed_is_absent(event: Event) -> bool:
    """Whether the output has the same law with a zeroed unit as without that unit.

    A sample of a fixed size has not: a zeroed unit takes a place that another unit would have.
    """
    return adds_contributions(event) and not _draws_fixed_size(event)


def _leaves(event: Event) -> Iterator[Event]:
    """The leaves of the event, without counts and samples."""
    for part in _parts(event):
        if not isinstance(part, _AROUND):
            yield part


def _draws_fixed_size(event: Event) -> bool:
    return any(isinstance(part, events.FixedSize) for part in _parts(event))


def _parts(event: Event) -> Iterator[Event]:
    """The event and all parts inside of it, at any depth; each object once."""
    todo, seen = [event], {id(event)}
    while todo:
        part = todo.pop()
        yield part
        inside: tuple[Event, ...] = ()
        match part:
            case events.Compose(parts) | events.Parallel(parts):
                inside = parts
            case events.Poisson(_, inner) | events.FixedSize(_, _, inner) | events.Repeat(inner, _):
                inside = (inner,)
            case events.BestOfPoisson(candidates) | events.BestOfNegativeBinomial(candidates):
                inside = candidates  # itself a leaf, too: a choice is no sum
        for each in inside:
            if id(each) not in seen:
                seen.add(id(each))
                todo.append(each)
