"""How much of (ε, δ) one run of a search may cost, so that the best of all runs keeps within it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from privet.accounting import account
from privet.adjacency import Adjacency
from privet.errors import InvalidArgument, NotProved, OutOfReach
from privet.events import Compose, Event
from privet.randomness import SecureNoise
from privet.training.clipping import Automatic, as_clip
from privet.training.loop.distributed import ProcessGroup
from privet.training.loop.options import RunOptions
from privet.training.loop.setup import make_plan
from privet.training.noise.correlated import IndependentNoise
from privet.training.noise.distributions import Normal
from privet.training.plan import TrainingPlan
from privet.training.tuning.recipes import TuningRecipe
from privet.training.tuning.run_counts import RunCount

__all__ = ["SearchBudget", "SearchRequest", "split_budget"]

_CLOSE = 0.985  # of ε; the search for the budget of one run ends there
_ROUNDS = 9


@final
@dataclass(frozen=True)
class SearchRequest:
    """What is asked for: all of it is public."""

    recipes: tuple[TuningRecipe, ...]
    population: int
    size_is_public: bool
    epsilon: float
    delta: float
    count: RunCount
    score: Event
    adjacency: Adjacency


@final
@dataclass(frozen=True)
class SearchBudget:
    """ε of the training of one run, at the δ of the request; the plan of each recipe; and the whole event."""

    run_epsilon: float
    plans: tuple[TrainingPlan, ...]
    event: Event
    epsilon: float


def split_budget(request: SearchRequest, group: ProcessGroup) -> SearchBudget:
    """The budget of one run, by the accountant: the largest, to about a percent, that ε pays for."""
    try:
        alone = account(request.score, adjacency=request.adjacency).epsilon(delta=request.delta)
        found = _search(request, group) if alone < request.epsilon else None
    except (NotProved, OutOfReach):
        found = None
    if found is None:
        raise InvalidArgument(
            f"'epsilon' = {request.epsilon:g} at 'delta' = {request.delta:g} cannot pay for one run with its "
            f"score. Raise 'epsilon', lower the mean number of runs, or raise 'score_noise'. Nothing was "
            f"spent."
        )
    return found


def _search(request: SearchRequest, group: ProcessGroup) -> SearchBudget | None:
    best: SearchBudget | None = None
    guess, low, high = 0.6 * request.epsilon, 0.0, request.epsilon
    for _ in range(_ROUNDS):
        tried = _with_runs_of(guess, request, group)
        if tried.epsilon <= request.epsilon:
            best, low = tried, guess
            if tried.epsilon >= _CLOSE * request.epsilon:
                break
        else:
            high = guess
        guess *= 0.995 * request.epsilon / tried.epsilon
        if not low < guess < high:
            guess = 0.5 * (low + high)
    return best


def _with_runs_of(epsilon: float, request: SearchRequest, group: ProcessGroup) -> SearchBudget:
    known: dict[tuple[float, int | None], TrainingPlan] = {}
    plans = []
    for recipe in request.recipes:
        key = (recipe.epochs, recipe.lot_size)
        if key not in known:
            known[key] = make_plan(request.population, _options(recipe, epsilon, request, group))
        plans.append(replace(known[key], clip_bound=_bound(recipe)))
    event = request.count.best_of(_runs(plans, request.score))
    spent = account(event, adjacency=request.adjacency).epsilon(delta=request.delta)
    return SearchBudget(epsilon, tuple(plans), event, spent)


def _runs(plans: Sequence[TrainingPlan], score: Event) -> tuple[Event, ...]:
    """Each different run once. A run is its training and its score, composed."""
    return tuple(dict.fromkeys(Compose((plan.event, score)) for plan in plans))


def _bound(recipe: TuningRecipe) -> float:
    return (Automatic(1.0) if recipe.clip is None else as_clip(recipe.clip)).bound


def _options(recipe: TuningRecipe, epsilon: float, request: SearchRequest, group: ProcessGroup) -> RunOptions:
    return RunOptions(
        epsilon=epsilon,
        delta=request.delta,
        epochs=recipe.epochs,
        steps=None,
        lot_size=recipe.lot_size,
        sampling=None,
        clip=Automatic(1.0) if recipe.clip is None else as_clip(recipe.clip),
        optimizer=None,
        schedule=None,
        adjacency=request.adjacency,
        population=request.population if request.size_is_public else None,
        correlation=IndependentNoise(),
        noise_distribution=Normal(),
        augmentation=None,
        encoding=None,
        denoising=None,
        average=None,
        micro_batch=None,
        canaries=None,
        checkpoint=None,
        process_group=group,
        noise=SecureNoise(),
    )
