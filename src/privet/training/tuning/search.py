"""``tune``: the best of a random number of private runs, and what the whole search costs.

*Theorem*: see ``privet.accounting.best_of``. A run is a recipe, drawn at random, with its trained model and a
noisy score on private validation data; its event is training and score, composed. The number of runs is
random and secret. Of all runs only the best one is shown, with its score.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch
from torch import nn

from privet.accounting import account
from privet.adjacency import AddRemove, Adjacency
from privet.arguments import format_value, open_fraction, positive, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument, PrivetError
from privet.events import Repeat
from privet.guarantees import Guarantee
from privet.ledger import Ledger
from privet.mechanisms.sampling import uniform_integers
from privet.randomness import NoiseSource, SecureNoise
from privet.training.clipping import Automatic, as_clip
from privet.training.extras.module_validation import enter_training_mode, validate_model
from privet.training.loop.distributed import resolve_process_group
from privet.training.loop.inputs import prepare_data
from privet.training.loop.losses import TorchLoss
from privet.training.loop.run import train
from privet.training.per_example.refusals import NotFinite
from privet.training.plan import TrainingPlan
from privet.training.tuning.budget import SearchBudget, SearchRequest, split_budget
from privet.training.tuning.count_choice import choose_count
from privet.training.tuning.recipes import TuningRecipe, require_recipes
from privet.training.tuning.run_counts import RunCount
from privet.training.tuning.saved_search import SavedSearch, SearchState
from privet.training.tuning.search_failure import keep_cost
from privet.training.tuning.search_mark import mark_search
from privet.training.tuning.search_progress import SearchProgress
from privet.training.tuning.validation import (
    ValidationSet,
    mark_right_answers,
    noisy_count,
    require_disjoint,
    score_event,
)

__all__ = ["Tuned", "tune"]


@final
@dataclass(frozen=True, eq=False)
class Tuned:
    """The best run of a search, with everything that may be published.

    ``model`` is trained, and None if there was no run that ended (a Poisson number of runs can be 0).
    ``score`` is its noisy number of right answers among ``validation_size``. ``ledger`` covers model, recipe
    and score, training and choice together. ``run_epsilon`` is the ε of the training of one run. ``plan`` is
    the plan of the chosen run.
    """

    model: nn.Module | None
    recipe: TuningRecipe | None
    plan: TrainingPlan | None
    score: int | None
    validation_size: int
    ledger: Ledger
    run_epsilon: float
    delta: float

    def guarantee(self) -> Guarantee:
        """An upper bound on what model, recipe and score leak."""
        return account(self.ledger)

    def epsilon(self, *, delta: float) -> float:
        """ε at this δ, of training and choice together."""
        return self.guarantee().epsilon(delta=delta)

    @property
    def accuracy(self) -> float | None:
        """The noisy share of right answers."""
        return None if self.score is None else min(max(self.score / self.validation_size, 0.0), 1.0)

    def trials_epsilon(self, *, tries: int = 20) -> float:
        """What "try so many, publish the best" costs with the noise of one run, if every try is counted.

        Whoever chooses for free claims ``run_epsilon``. All tries together are a composition, and this is its
        ε at the δ of the search.
        """
        whole("tries", tries, most=10**6)
        if self.plan is None:
            raise InvalidArgument("'plan' must be that of a chosen run, and no run was chosen. Search again.")
        trials = Repeat(self.plan.event, tries)
        return account(trials, adjacency=self.ledger.adjacency).epsilon(delta=self.delta)

    def summary(self, *, tries: int = 20) -> str:
        """What was chosen and what it costs, beside what choosing for free would have hidden."""
        if self.plan is None or self.accuracy is None:
            return "No run was chosen. The ledger counts all the same."
        return (
            f"Chosen: {self.recipe}; noisy accuracy {100 * self.accuracy:.1f} %. Training and choice cost "
            f"ε ≤ {self.epsilon(delta=self.delta):.2f} at δ = {self.delta:g}. Choosing for free would claim "
            f"ε = {self.run_epsilon:.2f}, one run's; {tries} such tries with the best published cost up to "
            f"ε = {self.trials_epsilon(tries=tries):.2f}."
        )

    def __repr__(self) -> str:
        return f"Tuned({self.recipe}, score {self.score} of {self.validation_size})"


def tune(
    recipes: Iterable[TuningRecipe],
    data: object,
    *,
    validation: object,
    epsilon: float,
    delta: float,
    runs: RunCount | None = None,
    score_noise: float | None = None,
    loss: TorchLoss | None = None,
    adjacency: Adjacency = AddRemove(),  # noqa: B008 - frozen
    population: int | None = None,
    checkpoint: str | Path | None = None,
    noise: NoiseSource = SecureNoise(),  # noqa: B008 - frozen
) -> Tuned:
    """Train some of the recipes, drawn at random, and give the best model: (ε, δ) for training and choice.

    *Guarantee*: model, recipe and score together are (ε, δ)-differentially private for the records of
    ``data`` and of ``validation``, under ``adjacency``. The whole cost is fixed, and in the ledger, before
    the first run. *Reference*: Papernot & Steinke 2022, Algorithm 1; the bound is that of
    ``privet.accounting.best_of``.

    *Leaks*: the number of runs, the other runs and their scores must stay secret. The time that the search
    takes tells about the number of runs: do not publish it. That ``validation`` shares records with ``data``
    is told by an error.

    Args:
        recipes: the settings to choose from; ``recipe_grid`` makes them. They must not come from the data.
        data: (inputs, labels) as arrays or tensors.
        validation: (inputs, labels) of other records, on which models are compared.
        epsilon: the ε that training and choice together must not exceed.
        delta: the δ of ``epsilon``.
        runs: the law of the number of runs. None takes the one that needs the least noise, with as many runs
            as try one of the best tenth of the recipes in 19 searches of 20 (about 50 for many recipes).
        score_noise: the standard deviation of the noise on the number of right answers; 30/ε by default.
        loss: the loss of ``privet.train``.
        adjacency: which data sets are neighbours; the default is add-remove of one record.
        population: a public number of training examples (see ``privet.train``).
        checkpoint: a folder, by which a search that was killed goes on without spending twice. Without it, a
            search that breaks off is spent all the same: ``SearchFailed.ledger``, or a note of the
            interruption, says how much.
        noise: the source of lots, noise, recipes and the number of runs. ``SeededNoise`` is for tests only.

    >>> from privet.training import NegativeBinomialCount, recipe_grid, tune
    >>> x = torch.randn(1200, 3); y = (x[:, 0] > 0).long()
    >>> grid = recipe_grid(lambda: nn.Linear(3, 2), epochs=(1, 2), lot_size=(200,))
    >>> tuned = tune(
    ...     grid, (x[:1000], y[:1000]), validation=(x[1000:], y[1000:]), epsilon=3, delta=1e-5,
    ...     runs=NegativeBinomialCount(2.0),
    ... )
    >>> tuned.epsilon(delta=1e-5) <= 3
    True
    """
    positive("epsilon", epsilon)
    open_fraction("delta", delta)
    listed = require_recipes(recipes)
    training, held_out = ValidationSet.read(data, "data"), ValidationSet.read(validation)
    require_disjoint(training, held_out)
    for recipe in listed:
        _rehearse_recipe(recipe, data, held_out, loss)
    scale = 30 / epsilon if score_noise is None else positive("score_noise", score_noise)
    progress = SearchProgress()
    progress.plan()
    count = runs or choose_count(len(listed), epsilon=epsilon, delta=delta, adjacency=adjacency)
    request = SearchRequest(
        listed,
        len(training) if population is None else whole("population", population),
        population is not None,
        epsilon,
        delta,
        count,
        score_event(scale),
        adjacency,
    )
    with warnings.catch_warnings(record=True) as said:  # a plan of each recipe warns about the same δ
        warnings.simplefilter("always")
        budget = split_budget(request, resolve_process_group(None))
    for message in {str(each.message): each for each in said}.values():
        warnings.warn(str(message.message), message.category, stacklevel=2)
    ledger = _ledger_of(request, budget, noise)
    mark = "" if checkpoint is None else mark_search(listed, (training, held_out), loss)
    saved = SavedSearch(checkpoint, ledger, mark)
    try:
        state = saved.open()
        if state is None:
            number = count.draw(noise)
            draws = uniform_integers(len(listed), number, noise).tolist() if number else []
            state = SearchState(tuple(draws))
            saved.begin(state)
        progress.begin(state.done)
        while state.done < len(state.draws):
            place = state.draws[state.done]
            progress.show(state.done, len(state.draws), str(listed[place]))
            with keep_cost(ledger, resumable=checkpoint is not None):
                score, model = _run(place, request, budget, data, held_out, scale, loss, noise)
                state = state.after_run(score, None if model is None else model.state_dict())
                saved.save(state)
    finally:
        saved.close()
    return _make_result(state, request, budget, ledger, len(held_out))


def _run(
    place: int,
    request: SearchRequest,
    budget: SearchBudget,
    data: object,
    validation: ValidationSet,
    scale: float,
    loss: TorchLoss | None,
    noise: NoiseSource,
) -> tuple[int | None, nn.Module | None]:
    """One run: its noisy score and its model. A run that diverges has no score; this is no error, because an
    error would tell what the other runs did not.
    """
    recipe, planned = request.recipes[place], budget.plans[place]
    model = recipe.model()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trained = train(
                model,
                data,
                epsilon=budget.run_epsilon,
                delta=request.delta,
                epochs=recipe.epochs,
                loss=loss,
                lot_size=recipe.lot_size,
                optimizer=recipe.optimizer,
                clip=recipe.clip,
                adjacency=request.adjacency,
                population=request.population if request.size_is_public else None,
                noise=noise,
            )
    except NotFinite:
        return None, None
    if trained.interrupted:
        raise KeyboardInterrupt
    if trained.plan.event != planned.event:  # the ledger was written for the plan
        raise AssertionError("a run differs from its plan")
    return noisy_count(mark_right_answers(model, validation), scale, noise), model


def _rehearse_recipe(
    recipe: TuningRecipe, data: object, validation: ValidationSet, loss: TorchLoss | None
) -> None:
    """Everything that can be refused before anything is spent: the model is made, checked, and given rows of
    zeros.
    """
    try:
        model = recipe.model()
    except Exception as failed:
        raise InvalidArgument(
            f"The recipe '{recipe}' must make a model, and failed with {type(failed).__name__}. Call its "
            f"'model' function by itself. Nothing was spent."
        ) from failed
    if not isinstance(model, nn.Module):
        raise InvalidArgument(
            f"The recipe '{recipe}' must make a torch module, got {format_value(model)}. Return the model. "
            f"Nothing was spent."
        )
    try:
        enter_training_mode(model)
        validate_model(model)
        prepare_data(model, data, loss)
        zeros = ValidationSet(torch.zeros_like(validation.inputs[:2]), validation.labels[:2] * 0)
        mark_right_answers(model, zeros)
        _ = Automatic(1.0) if recipe.clip is None else as_clip(recipe.clip)
        if recipe.optimizer is not None:
            recipe.optimizer(model.parameters())
    except PrivetError:
        raise
    except Exception as failed:
        raise InvalidArgument(
            f"The recipe '{recipe}' must take the inputs of 'data' and 'validation', and failed with "
            f"{type(failed).__name__}. Call its model on two rows. Nothing was spent."
        ) from failed


def _ledger_of(request: SearchRequest, budget: SearchBudget, noise: NoiseSource) -> Ledger:
    caveats: frozenset[Caveat] = noise.caveats
    for plan in budget.plans:
        caveats |= plan.ledger(0).caveats
    if isinstance(request.adjacency, AddRemove):
        caveats |= {Caveat.SIZE_TAKEN_AS_PUBLIC}  # the score is shown as a share of the validation set
    label = f"the best of a random number of private runs, from {len(request.recipes)} recipes"
    return Ledger(request.adjacency).spend(label, budget.event, caveats=caveats)


def _make_result(
    state: SearchState, request: SearchRequest, budget: SearchBudget, ledger: Ledger, size: int
) -> Tuned:
    if state.place is None or state.weights is None:
        return Tuned(None, None, None, None, size, ledger, budget.run_epsilon, request.delta)
    recipe = request.recipes[state.place]
    model = recipe.model()
    model.load_state_dict(state.weights)
    model.eval()
    plan = budget.plans[state.place]
    return Tuned(model, recipe, plan, state.score, size, ledger, budget.run_epsilon, request.delta)
