"""Laws of attacks on federated runs: nothing is found where nothing is, much where a run overfits, never more than a claim
allows, and the order that Nasr, Shokri & Houmansadr (2019) found."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="gradients come from torch")

from privet.accounting import account  # noqa: E402
from privet.adjacency import ReplaceOne, Unit  # noqa: E402
from privet.attacks.federated import (  # noqa: E402
    GradientAscent,
    LearnedRounds,
    RoundAlignment,
    RoundConfidence,
    RoundGain,
    RoundRecorder,
    RoundSlope,
    guess_higher_half,
    list_steps,
    measure_rounds,
)
from privet.auditing import measure, measure_recoveries  # noqa: E402
from privet.events import Gaussian, Repeat  # noqa: E402
from privet.ledger import Ledger  # noqa: E402
from privet.observed_rounds import Observer  # noqa: E402
from privet.recoveries import Recoveries  # noqa: E402

_PATH = Path(__file__).parents[1] / "unit" / "plain_federation.py"
_SPEC = importlib.util.spec_from_file_location("privet_tests_plain_federation", _PATH)
federation = importlib.util.module_from_spec(_SPEC)
sys.modules["privet_tests_plain_federation"] = federation
_SPEC.loader.exec_module(federation)

PASSIVE = (RoundConfidence(), RoundGain(), RoundSlope(), RoundAlignment())
MODEL = federation.perceptron(30, 32, 5)
WIDE = federation.perceptron(60, 32, 5)
_ROUNDS = 3  # of private runs


def attack(population, coins, *, rounds=6, active=False, place=Observer.SERVER, module=MODEL, **options):
    """The AUC of each attack on one run, with its scores."""
    if active:
        participant = {} if place is Observer.SERVER else {"client": 0, "boost": float(population.number)}
        observer = GradientAscent(module, population.targets, **participant)
    else:
        observer = RoundRecorder(place)
    federation.run_rounds(module, population, [observer], rounds=rounds, **options)
    steps = observer.list_steps() if active else list_steps(observer.rounds)
    # A participant knows its own records.
    judged = population.targets.homes != (0 if place is Observer.PARTICIPANT and active else -1)
    signals = measure_rounds(module, steps, population.targets.take(judged))
    return {each.name: each.run(signals, coins[judged]) for each in PASSIVE}


def areas(scores):
    return {name: measure(each).auc.value for name, each in scores.items()}


def without_targets(population):
    """The same clients, none of whom holds a target: the coins decide nothing."""
    held = [(inputs[:24], labels[:24]) for inputs, labels in population.clients]
    return federation.Population(population.targets, population.coins, held)


def null_runs(runs):
    """How often an attack says that it tells members apart, of targets that nobody holds."""
    found = {attack.name: [] for attack in PASSIVE}
    for seed in range(runs):
        population = without_targets(federation.draw_population(clients=4, targets=10, seed=seed))
        for name, scores in attack(population, population.coins, rounds=2, active=seed % 2 == 1).items():
            guessed = measure_recoveries(guess_higher_half(scores, RoundGain.adversary))
            found[name].append((measure(scores).auc.value, guessed.detected))
    return {name: np.array(rows) for name, rows in found.items()}


def check_null(runs):
    """The AUC is ½ on average: each has a standard deviation of about 0.092 with 20 and 20 records, so the mean of the runs
    is within 4 standard deviations of ½ in all but 6e-5 of the tests. Leaks are claimed in at most 5 % of runs: a binomial
    limit with a false-alarm rate below 1e-3 for each of the four attacks."""
    from scipy.stats import binom

    for name, rows in null_runs(runs).items():
        assert abs(rows[:, 0].mean() - 0.5) < 4 * 0.092 / np.sqrt(runs), name
        assert rows[:, 1].sum() <= binom.ppf(1 - 1e-3, runs, 0.05), name


def test_nothing_is_found_where_nothing_is():
    check_null(8)


@pytest.mark.slow
def test_nothing_is_found_where_nothing_is_in_many_runs():
    check_null(200)


def test_an_overfitted_run_leaks_at_the_server():
    population = federation.draw_population(seed=0)
    for name, scores in attack(population, population.coins).items():
        leakage = measure(scores)
        assert leakage.auc.lower > 0.5, name
        assert measure_recoveries(guess_higher_half(scores, RoundGain.adversary)).detected, name


def test_a_classifier_learns_from_known_records():
    population = federation.draw_population(seed=0, targets=24)
    recorder = RoundRecorder(Observer.SERVER)
    federation.run_rounds(MODEL, population, [recorder], rounds=6)
    steps = list_steps(recorder.rounds)
    known = np.arange(len(population.coins)) % 2 == 0
    signals = measure_rounds(MODEL, steps, population.targets.take(known))
    judge = LearnedRounds(signals, population.coins[known])
    scores = judge.run(
        measure_rounds(MODEL, steps, population.targets.take(~known)), population.coins[~known]
    )
    assert measure(scores).auc.lower > 0.5


def claim(noise, rounds):
    """A record that comes or goes exchanges the whole update of its client: replace-one with the client as the unit."""
    return account(Ledger(ReplaceOne(Unit.CLIENT)).spend("rounds", Repeat(Gaussian(noise), rounds)))


def private_runs(runs, place, multiplier, *, active):
    """The guesses of each attack over many small private runs: the server's noise against a participant, and the clients'
    own noise against the server."""
    noise = {"noise": multiplier} if place is Observer.PARTICIPANT else {"local_noise": multiplier}
    pooled = {attack.name: [] for attack in PASSIVE}
    for seed in range(runs):
        population = federation.draw_population(clients=4, each=8, targets=8, seed=seed)
        scores = attack(
            population,
            population.coins,
            rounds=_ROUNDS,
            place=place,
            active=active,
            clip=0.5,
            seed=seed,
            **noise,
        )
        for name, each in scores.items():
            pooled[name].append(guess_higher_half(each, RoundGain.adversary))
    return {name: measure_recoveries(_join(guesses), confidence=1 - 1e-4) for name, guesses in pooled.items()}


def _join(guesses):
    hits, members = (np.concatenate([getattr(g, side) for g in guesses]) for side in ("hits", "members"))
    return Recoveries("all runs", RoundGain.adversary, "guessed", hits, members)


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("place", list(Observer))
def test_success_is_never_above_the_ceiling(place, active):
    """Intervals are read in favour of the claim at a confidence of 99.99 %. Without noise the same attacks are far above this
    ceiling (the next test), so the test can fail."""
    for name, leakage in private_runs(5, place, 4.0, active=active).items():
        assert not leakage.is_above_ceiling(claim(4.0, _ROUNDS)), name


@pytest.mark.slow
@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("place", list(Observer))
@pytest.mark.parametrize("multiplier", [1.0, 4.0, 16.0])
def test_success_is_never_above_the_ceiling_in_many_runs(place, active, multiplier):
    for name, leakage in private_runs(60, place, multiplier, active=active).items():
        assert not leakage.is_above_ceiling(claim(multiplier, _ROUNDS)), name


def test_a_forgotten_noise_is_above_the_ceiling():
    """Mutation: the clients clip, nobody adds the noise that the ledger states, and the attack shows it."""
    guesses = []
    for seed in range(2):
        population = federation.draw_population(targets=16, each=8, width=60, seed=seed)
        scores = attack(population, population.coins, clip=5.0, rounds=6, active=True, module=WIDE)
        guesses.append(guess_higher_half(scores["alignment over rounds"], RoundGain.adversary))
    assert measure_recoveries(_join(guesses), confidence=0.99).is_above_ceiling(claim(16.0, 6))


def test_active_beats_passive_and_averages_leak_less():
    """One run of each kind with the same clients; the long form has the mean of several."""
    check_order(1)


@pytest.mark.slow
def test_the_order_of_nasr_et_al():
    check_order(10)


def check_order(runs):
    """Table XII of Nasr et al. 2019: the active server before the passive one before a participant, who sees averages."""
    found = {
        name: [
            max(areas(attack(population, population.coins, rounds=10, **options)).values())
            for population in (federation.draw_population(seed=seed) for seed in range(runs))
        ]
        for name, options in {
            "active server": {"active": True},
            "server": {},
            "active participant": {"active": True, "place": Observer.PARTICIPANT},
            "participant": {"place": Observer.PARTICIPANT},
        }.items()
    }
    mean = {name: float(np.mean(values)) for name, values in found.items()}
    assert mean["active server"] > mean["server"] + 0.05
    assert mean["server"] > mean["participant"] + 0.05
    assert mean["active participant"] > mean["participant"] - (0.05 if runs == 1 else 0.0)


@pytest.mark.slow
def test_later_rounds_leak_more_than_earlier_ones():
    """Nasr et al. 2019, table VIII: 57.4 % from epochs 5 to 25 and 85.1 % from epochs 100 to 300 on CIFAR-100. Here the model
    is small, and the confidence of a participant grows from rounds 1 to 5 to rounds 56 to 60."""
    gaps = []
    for seed in range(16):
        population = federation.draw_population(seed=seed)
        recorder = RoundRecorder(Observer.PARTICIPANT)
        federation.run_rounds(MODEL, population, [recorder], rounds=60, rate=0.02)
        steps = list_steps(recorder.rounds)
        early, late = (
            measure(
                RoundConfidence().run(
                    measure_rounds(
                        MODEL, [s for s in steps if s.round_number in numbers], population.targets
                    ),
                    population.coins,
                )
            ).auc.value
            for numbers in (range(1, 6), range(55, 60))
        )
        gaps.append(late - early)
    # Four standard errors: by chance in 3e-5 of the tests if there is no difference.
    assert np.mean(gaps) > 4 * np.std(gaps, ddof=1) / np.sqrt(len(gaps))


@pytest.mark.slow
def test_more_participants_leak_less():
    """Nasr et al. 2019, section V-E: the more participants an average has, the less it says of each."""
    mean = []
    for clients in (2, 5, 15):
        found = []
        for seed in range(8):
            population = federation.draw_population(clients=clients, targets=60 // clients, seed=seed)
            scores = attack(population, population.coins, place=Observer.PARTICIPANT, rounds=10)
            found.append(max(areas(scores).values()))
        mean.append(np.mean(found))
    assert mean[0] > mean[1] > mean[2]
