"""``privet.tune``: refusals spend nothing, a search is paid before it runs, and is resumed with its own draws."""

import dataclasses
import io
import itertools
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import privet
from privet.accounting import account
from privet.adjacency import AddRemove
from privet.auditing import ClopperPearson
from privet.errors import InvalidArgument, PrivetError
from privet.events import BestOfPoisson, Gaussian
from privet.ledger import Ledger
from privet.randomness import SeededNoise
from privet.scores import Scores
from privet.training import (
    NegativeBinomialCount,
    PoissonCount,
    SearchFailed,
    TuningRecipe,
    choose_model,
    recipe_grid,
)
from privet.training.loop.distributed import resolve_process_group
from privet.training.tuning import budget as budgets
from privet.training.tuning import search
from privet.training.tuning.count_choice import choose_count, count_for_share
from privet.training.tuning.saved_search import SearchState
from privet.training.tuning.search_mark import mark_search
from privet.training.tuning.search_progress import SearchProgress
from privet.training.tuning.validation import ValidationSet, score_event

_X = torch.randn(700, 3, generator=torch.Generator().manual_seed(0))
_Y = (_X[:, 0] > 0).long()
_DATA, _VALIDATION = (_X[:500], _Y[:500]), (_X[500:], _Y[500:])


def linear():
    return nn.Linear(3, 2)


def zeroed():
    model = linear()
    nn.init.zeros_(model.weight)
    return model


_GRID = recipe_grid(linear, epochs=(1,), lot_size=(100,), learning_rate=(0.001, 1.0))


@pytest.fixture(scope="module")
def cheap_budget():
    """The budget of the grid for runs of ε = 1: one step of the search for it."""
    request = budgets.SearchRequest(
        _GRID, 500, False, 9.0, 1e-4, PoissonCount(4.0), score_event(5.0), AddRemove()
    )
    return budgets._with_runs_of(1.0, request, resolve_process_group(None))


@pytest.fixture
def tune(monkeypatch, cheap_budget):
    monkeypatch.setattr(search, "split_budget", lambda request, group: cheap_budget)

    def call(recipes=_GRID, seed=3, **options):
        return privet.tune(
            recipes,
            _DATA,
            validation=_VALIDATION,
            epsilon=9.0,
            delta=1e-4,
            runs=PoissonCount(4.0),
            score_noise=5.0,
            noise=SeededNoise(seed),
            **options,
        )

    return call


@pytest.mark.slow
def test_the_ledger_holds_training_and_choice(tune, cheap_budget):
    tuned = tune()
    assert [entry.event for entry in tuned.ledger] == [cheap_budget.event]
    assert isinstance(cheap_budget.event, BestOfPoisson)
    assert privet.Caveat.BEST_OF_SECRET_RUNS in tuned.guarantee().caveats
    assert tuned.run_epsilon < tuned.epsilon(delta=1e-4) < tuned.trials_epsilon(tries=20)
    assert "Choosing for free would claim" in tuned.summary()
    assert tuned.recipe in _GRID


def test_a_killed_search_goes_on_with_its_own_draws(tune, tmp_path, monkeypatch):
    made = []

    def counted(*arguments, **options):
        held = (tmp_path / "ledger.json").read_text()  # the whole cost is on disk before any run
        assert len(Ledger.from_json(held)) == 1
        made.append(arguments[0])
        if len(made) == 2:
            raise KeyboardInterrupt
        return kept(*arguments, **options)

    kept = search._run
    monkeypatch.setattr(search, "_run", counted)
    with pytest.raises(KeyboardInterrupt):
        tune(checkpoint=tmp_path)
    before = (tmp_path / "ledger.json").read_bytes()
    first = tune(checkpoint=tmp_path, seed=99)  # another seed: the draws are those on disk
    assert made[1] == made[2]  # the run that was under way started again
    assert (tmp_path / "ledger.json").read_bytes() == before
    runs = len(made)
    again = tune(checkpoint=tmp_path)
    assert len(made) == runs  # nothing runs twice
    assert again.score == first.score
    assert torch.equal(again.model.weight, first.model.weight)
    assert (tmp_path / "search.pt").stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidArgument, match="same search"):
        tune(recipe_grid(linear, epochs=(1,), lot_size=(100,), learning_rate=(3.0, 5.0)), checkpoint=tmp_path)


def test_only_the_same_search_is_resumed():
    """Other data, labels, layers or first parameters make another search; random ones of the same function do not."""
    sets = [ValidationSet.read(_DATA), ValidationSet.read(_VALIDATION)]
    mark = mark_search(_GRID, sets, None)
    state = torch.random.get_rng_state()
    assert mark_search(_GRID, sets, None) == mark
    assert torch.equal(torch.random.get_rng_state(), state)
    flipped = ValidationSet.read((_DATA[0], 1 - _DATA[1]))
    others = [
        mark_search(_GRID, [flipped, sets[1]], None),
        mark_search(_GRID, [sets[1], sets[0]], None),
        mark_search(_GRID, sets, nn.functional.cross_entropy),
    ]
    for make in (lambda: nn.Linear(3, 2, bias=False), zeroed):
        others.append(mark_search(recipe_grid(make, epochs=(1,), lot_size=(100,)), sets, None))
    others.append(mark_search([dataclasses.replace(recipe, momentum=0.5) for recipe in _GRID], sets, None))
    assert len({mark, *others}) == len(others) + 1


def test_a_search_that_breaks_off_tells_what_it_spent(tune, cheap_budget, monkeypatch):
    def fail(*_, **__):
        raise OSError("the disk is full")

    monkeypatch.setattr(search, "_run", fail)
    with pytest.raises(SearchFailed, match="OSError; the search is paid for") as failed:
        tune()
    assert [entry.event for entry in failed.value.ledger] == [cheap_budget.event]
    again = pickle.loads(pickle.dumps(failed.value))
    assert len(again.ledger) == 1

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "_run", interrupt)
    with pytest.raises(KeyboardInterrupt) as stopped:
        tune()
    _, text = stopped.value.__notes__[0].split("Its ledger:\n")
    assert [entry.event for entry in Ledger.from_json(text)] == [cheap_budget.event]


def test_progress_is_shown_on_a_terminal_only(monkeypatch):
    for shown in (True, False):
        stream = io.StringIO()
        stream.isatty = lambda shown=shown: shown
        progress = SearchProgress(stream)
        progress.plan()
        progress.begin(0)
        progress.show(0, 4, "5 epochs")
        progress.show(2, 4, "5 epochs")
        assert ("run 3 of 4  5 epochs  about 0 s left" in stream.getvalue()) == shown
        assert ("secret" in stream.getvalue()) == shown


@pytest.mark.parametrize(
    "count", [PoissonCount(6.0), NegativeBinomialCount(6.0), NegativeBinomialCount(6.0, shape=3.0)], ids=repr
)
def test_the_chance_to_miss_is_that_of_the_law(count):
    runs, mass = count.first_mass()
    total = 0.0
    while mass > 1e-15:
        total += mass * 0.7**runs
        mass *= count.mass_ratio(runs)
        runs += 1
    assert count.chance_to_miss(0.3) == pytest.approx(total, rel=1e-9)


@pytest.mark.slow
def test_the_chosen_law_tries_one_of_the_best_tenth_in_19_of_20_searches():
    chosen = choose_count(30, epsilon=3.0, delta=1e-5, adjacency=AddRemove())
    assert 0.049 < chosen.chance_to_miss(0.1) <= 0.05
    prices = {}
    for make in (PoissonCount, NegativeBinomialCount):
        law = count_for_share(make, 0.1)
        prices[make] = account(law.best_of((Gaussian(3.0),)), adjacency=AddRemove()).epsilon(delta=1e-5)
    ours = account(chosen.best_of((Gaussian(3.0),)), adjacency=AddRemove()).epsilon(delta=1e-5)
    assert ours <= 1.05 * min(prices.values())


def test_a_run_that_diverges_is_never_the_best_and_no_error(tune, monkeypatch):
    from privet.training import NotFinite

    monkeypatch.setattr(search, "train", lambda *_, **__: (_ for _ in ()).throw(NotFinite("a loss")))
    tuned = tune()
    assert tuned.model is None
    assert len(tuned.ledger) == 1


def broken():
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"recipes": ()}, "between 1 and"),
        ({"recipes": (_GRID[0] for _ in itertools.count())}, "no end"),
        ({"recipes": (TuningRecipe(broken, 1),)}, "must make a model"),
        ({"recipes": (TuningRecipe(lambda: 3, 1),)}, "torch module"),
        ({"recipes": (TuningRecipe(lambda: nn.Linear(7, 2), 1),)}, "Linear|inputs|take"),
        ({"validation": (_X[400:], _Y[400:])}, "share no record"),
        ({"validation": (_X[500:, :2], _Y[500:])}, "shape"),
        ({"validation": (_X[500:], _Y[501:])}, "one label"),
        ({"validation": 3}, "pair"),
        ({"epsilon": 1e-3, "score_noise": 0.5}, "cannot pay for one run"),
        ({"recipes": (TuningRecipe(linear, 1, lot_size=5000),), "runs": PoissonCount(2.0)}, "lot_size"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
    ],
)
def test_a_refused_search_spends_nothing(changed, says, tmp_path):
    arguments = {"recipes": _GRID, "validation": _VALIDATION, "epsilon": 3.0, "delta": 1e-4} | changed
    with pytest.raises(PrivetError, match=says):
        privet.tune(arguments.pop("recipes"), _DATA, checkpoint=tmp_path, **arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("axis", ["epochs", "learning_rate"])
def test_an_empty_axis_is_refused(axis):
    with pytest.raises(InvalidArgument, match=axis):
        recipe_grid(linear, **({"epochs": (1,)} | {axis: ()}))


@pytest.mark.parametrize(
    "count", [PoissonCount(6.0), NegativeBinomialCount(6.0), NegativeBinomialCount(6.0, shape=0.0)], ids=repr
)
def test_the_drawn_numbers_of_runs_have_their_mean(count):
    """Two-sided z-test at 5 σ: a false alarm in 6·10⁻⁷; finds a mean that is off by 0.9."""
    noise = SeededNoise(5)
    draws = np.array([count.draw(noise) for _ in range(1000)])
    assert abs(draws.mean() - 6.0) < 5 * draws.std() / np.sqrt(len(draws))
    assert draws.min() >= (0 if isinstance(count, PoissonCount) else 1)


@pytest.mark.slow
def test_a_paid_model_is_chosen_and_the_choice_is_paid():
    trained = [
        privet.train(linear(), _DATA, epsilon=5, delta=1e-4, epochs=2, lot_size=100, noise=SeededNoise(seed))
        for seed in (1, 2)
    ]
    with torch.no_grad():
        trained[0].model.weight.zero_()
        trained[0].model.bias.copy_(torch.tensor([0.0, 1.0]))
    chosen = choose_model(trained, _VALIDATION, epsilon=2.0, noise=SeededNoise(1))
    assert chosen.place == 1
    assert len(chosen.ledger) == 3
    with pytest.raises(InvalidArgument, match="at least two"):
        choose_model(trained[:1], _VALIDATION, epsilon=1.0)


@pytest.mark.slow
def test_an_audit_of_the_whole_search_stays_below_its_claim_and_catches_a_forgotten_choice():
    """The search's own draws and its own choice, on a run whose score is its result: the worst for privacy.

    3,000 searches with and 3,000 without the unit; at 99 % confidence, a false alarm in 1 %, at a fixed seed.
    """
    count, generator, noise = PoissonCount(40.0), np.random.default_rng(1), SeededNoise(2)
    members = np.arange(6000) % 2 == 0
    shown = []
    for member in members:
        state = SearchState((0,) * count.draw(noise))
        for value in generator.normal(float(member), 1.0, len(state.draws)):
            state = state.after_run(float(value), {})
        shown.append(-10.0 if state.score is None else state.score)
    scores = Scores(np.array(shown), members)
    measured = ClopperPearson(confidence=0.99).epsilon(scores, delta=1e-2)
    claim = account(count.best_of((Gaussian(1.0),)), adjacency=AddRemove()).epsilon(delta=1e-2)
    forgotten = account(Gaussian(1.0), adjacency=AddRemove()).epsilon(delta=1e-2)
    assert forgotten < measured < claim
