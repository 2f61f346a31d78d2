"""Attacks on observed rounds: which steps a defence leaves open, what the signals are, and what is refused."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="gradients come from torch")

from privet.attacks.federated import (  # noqa: E402
    ClientExamples,
    ClientRecords,
    GradientAscent,
    LearnedRounds,
    MessageInversion,
    PropertyInference,
    RoundAlignment,
    RoundConfidence,
    RoundGain,
    RoundRecorder,
    RoundSlope,
    guess_higher_half,
    list_steps,
    measure_rounds,
    spread_rounds,
)
from privet.attacks.inversion.gradients import FirstLayer  # noqa: E402
from privet.auditing import measure, measure_recoveries  # noqa: E402
from privet.errors import InvalidArgument  # noqa: E402
from privet.observed_rounds import ObservedMessage, ObservedRound, Observer  # noqa: E402
from privet.randomness import experiment  # noqa: E402
from privet.scores import Records, Scores  # noqa: E402
from privet.shared_gradients import LocalSteps  # noqa: E402

_PATH = Path(__file__).with_name("plain_federation.py")
_SPEC = importlib.util.spec_from_file_location("privet_tests_plain_federation", _PATH)
federation = importlib.util.module_from_spec(_SPEC)
sys.modules["privet_tests_plain_federation"] = federation
_SPEC.loader.exec_module(federation)

ATTACKS = [RoundConfidence(), RoundGain(), RoundSlope(), RoundAlignment()]
MODEL = federation.perceptron(30, 32, 5)


def weights(value):
    return {"w": np.full(3, float(value))}


def test_opened_messages_are_steps_of_single_clients():
    messages = (ObservedMessage(client=4, update=weights(1)), ObservedMessage(client=7, update=weights(2)))
    (first, second) = list_steps(
        [
            ObservedRound(
                number=1, weights=weights(0), participants=(4, 7), messages=messages, total=weights(3)
            )
        ]
    )
    assert (first.clients, second.clients) == ({4}, {7})
    assert first.isolated
    assert first.may_hold(4)
    assert not first.may_hold(7)
    assert second.after["w"].tolist() == [2.0, 2.0, 2.0]


def test_closed_messages_leave_one_step_of_all_participants():
    messages = (
        ObservedMessage(client=4, update=None, payload=b"masked"),
        ObservedMessage(client=7, update=None),
    )
    (step,) = list_steps(
        [
            ObservedRound(
                number=1, weights=weights(0), participants=(4, 7), messages=messages, total=weights(3)
            )
        ]
    )
    assert step.clients == {4, 7}
    assert not step.isolated
    assert step.update["w"].tolist() == [1.5, 1.5, 1.5]


def test_a_participant_sees_the_difference_of_two_global_models():
    rounds = [ObservedRound(number=n, weights=weights(n * n), participants=()) for n in (1, 2, 4)]
    (step,) = list_steps(rounds)  # between 2 and 4 a round is missing, and after 4 nothing is known
    assert step.clients is None
    assert step.may_hold(99)
    assert (step.round_number, step.update["w"][0]) == (1, 3.0)


def test_a_server_that_reads_nothing_gets_no_step_and_guesses():
    rounds = [ObservedRound(number=n, weights={}, participants=(0, 1)) for n in (1, 2)]
    assert list_steps(rounds) == []
    population = federation.draw_population()
    signals = measure_rounds(MODEL, [], population.targets)
    for attack in ATTACKS:
        assert not attack.score(signals).any()
    guessed = guess_higher_half(ATTACKS[0].run(signals, population.coins), ATTACKS[0].adversary)
    assert guessed.hits.sum() == len(population.coins) // 2
    assert not measure_recoveries(guessed).detected


def test_what_an_active_server_sent_is_where_the_step_starts():
    rounds = [
        ObservedRound(
            number=1,
            weights=weights(0),
            participants=(4,),
            messages=(ObservedMessage(client=4, update=weights(1)),),
        )
    ]
    (step,) = list_steps(rounds, sent={(1, 4): weights(10)})
    assert step.after["w"][0] == 11.0


@pytest.mark.parametrize(
    ("rounds", "words"),
    [
        ([], "at least one observed round"),
        ([ObservedRound(number=1, weights=weights(0), participants=())] * 2, "one entry for each round"),
    ],
)
def test_rounds_of_no_run_are_refused(rounds, words):
    with pytest.raises(InvalidArgument, match=words):
        list_steps(rounds)


def test_a_recorder_keeps_the_rounds_that_it_is_told_to():
    recorder = RoundRecorder(Observer.PARTICIPANT, keep=[2, 3])
    for number in range(1, 6):
        recorder.observe(ObservedRound(number=number, weights=weights(number), participants=()))
    assert [seen.number for seen in recorder.rounds] == [2, 3]
    assert recorder.place is Observer.PARTICIPANT
    assert recorder.alter(1, 0, weights(5)) is not None


def test_rounds_are_spread_evenly_with_the_last_one():
    rounds = [ObservedRound(number=n, weights=weights(n), participants=()) for n in range(10)]
    steps = list_steps(rounds)
    assert [step.round_number for step in spread_rounds(steps, 3)] == [0, 4, 8]
    assert len(spread_rounds(steps, 50)) == len(steps)


def test_homes_are_one_for_each_record():
    records = Records(np.zeros((3, 2)), np.zeros(3, dtype=int))
    with pytest.raises(InvalidArgument, match="the number of one client"):
        ClientRecords(records, np.zeros(2, dtype=int))
    with pytest.raises(InvalidArgument, match="whole numbers"):
        ClientRecords(records, np.zeros(3))


def test_weights_of_another_model_are_refused():
    population = federation.draw_population()
    seen = ObservedRound(number=1, weights=weights(0), participants=(0,), total=weights(1))
    with pytest.raises(InvalidArgument, match="Give the architecture"):
        measure_rounds(MODEL, list_steps([seen]), population.targets)


def test_signals_are_what_they_say():
    """Against autograd, one record at a time."""
    population = federation.draw_population(clients=2, targets=3)
    recorder = RoundRecorder(Observer.SERVER)
    federation.run_rounds(MODEL, population, [recorder], rounds=1)
    steps = list_steps(recorder.rounds)[:2]
    signals = measure_rounds(MODEL, steps, population.targets)
    for place, home in enumerate(population.targets.homes):
        step = steps[int(home)]
        phi = [_differentiate(step_weights, population, place) for step_weights in (step.before, step.after)]
        update = np.concatenate([step.update[name].ravel() for name in step.update])
        (first, slope), (last, end) = phi
        assert np.isclose(signals.confidence[0, place], last, atol=1e-4)
        assert np.isclose(signals.gain[0, place], last - first, atol=1e-4)
        assert np.isclose(signals.slope[0, place], -np.log(np.linalg.norm(end)), atol=1e-4)
        cosine = -slope @ update / np.linalg.norm(slope) / np.linalg.norm(update)
        assert np.isclose(signals.alignment[0, place], cosine, atol=1e-4)


def _differentiate(values, population, place):
    module = federation.copy.deepcopy(MODEL)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.as_tensor(np.array(values[name])))
    record, label = population.targets.records.inputs[place], int(population.targets.records.labels[place])
    logs = torch.log_softmax(module(torch.as_tensor(record)[None]), dim=1)[0, label]
    gradients = torch.autograd.grad(-logs, list(module.parameters()))
    p = float(logs.detach().exp())
    return np.log(p / (1 - p)), np.concatenate([part.numpy().ravel() for part in gradients]).astype(float)


def test_signals_have_one_scale_in_every_round():
    population = federation.draw_population()
    recorder = RoundRecorder(Observer.SERVER)
    federation.run_rounds(MODEL, population, [recorder], rounds=2)
    signals = measure_rounds(MODEL, list_steps(recorder.rounds), population.targets)
    standard = signals.standardise(1e6 * signals.gain + 17.0)
    assert np.allclose(standard, signals.standardise(signals.gain), atol=1e-6)
    constant = signals.standardise(np.full(signals.gain.shape, 3.0))
    assert not constant.any()
    hidden = signals.restrict(np.zeros(signals.seen.shape, dtype=bool))
    assert not RoundGain().score(hidden).any()


def test_the_order_of_records_does_not_matter():
    population = federation.draw_population()
    recorder = RoundRecorder(Observer.SERVER)
    federation.run_rounds(MODEL, population, [recorder], rounds=2)
    steps = list_steps(recorder.rounds)
    order = experiment(3).permutation(len(population.coins))
    plain = measure_rounds(MODEL, steps, population.targets)
    mixed = measure_rounds(MODEL, steps, population.targets.take(order))
    for attack in ATTACKS:
        assert np.allclose(attack.score(plain)[order], attack.score(mixed), atol=1e-5)


def test_the_coin_is_joined_afterwards_and_must_fit():
    population = federation.draw_population()
    signals = measure_rounds(MODEL, [], population.targets)
    with pytest.raises(InvalidArgument, match="one coin for each"):
        RoundGain().run(signals, population.coins[:3])
    with pytest.raises(InvalidArgument, match="with some of both"):
        LearnedRounds(signals, np.zeros(len(signals), dtype=bool))


def test_learning_needs_the_same_rounds():
    population = federation.draw_population()
    recorder = RoundRecorder(Observer.SERVER)
    federation.run_rounds(MODEL, population, [recorder], rounds=2)
    steps = list_steps(recorder.rounds)
    known = measure_rounds(MODEL, steps, population.targets)
    other = measure_rounds(MODEL, steps[:5], population.targets)
    with pytest.raises(InvalidArgument, match="the same rounds"):
        LearnedRounds(known, population.coins).score(other)


def test_equal_scores_are_guessed_at_random_and_others_by_their_order():
    scores = Scores(np.array([3.0, 1.0, 2.0, 0.0]), np.array([True, False, True, False]))
    assert guess_higher_half(scores, RoundGain.adversary).hits.tolist() == [True, False, True, False]
    equal = Scores(np.zeros(400), np.arange(400) < 200)
    hits = guess_higher_half(equal, RoundGain.adversary).hits
    assert hits.sum() == 200
    assert 60 < hits[:200].sum() < 140  # eight standard deviations: 200 of 400 drawn without replacement


def test_an_ascent_has_the_length_that_it_says_and_raises_the_loss():
    population = federation.draw_population()
    start = {name: value.detach().double().numpy() for name, value in MODEL.named_parameters()}
    attack = GradientAscent(MODEL, population.targets, strength=0.05, at_once=1)
    altered = attack.alter(0, 2, start)
    moved = np.sqrt(sum(np.square(altered[name] - start[name]).sum() for name in start))
    whole = np.sqrt(sum(np.square(start[name]).sum() for name in start))
    assert np.isclose(moved, 0.05 * whole)
    target = int(np.flatnonzero(attack.mark_raised([0])[0])[0])
    assert population.targets.homes[target] == 2
    assert _differentiate(altered, population, target)[0] < _differentiate(start, population, target)[0] - 0.1
    assert attack.alter(0, 99, start) is start  # a client without targets gets the honest model
    assert (attack.place, attack.controls) == (Observer.SERVER, frozenset())


def test_an_ascent_waits_for_its_round():
    population = federation.draw_population()
    start = {name: value.detach().double().numpy() for name, value in MODEL.named_parameters()}
    attack = GradientAscent(MODEL, population.targets, client=1, start=5)
    assert attack.replace_update(4, 1, start, start) is start
    replaced = attack.replace_update(5, 1, start, start)
    assert any(not np.array_equal(replaced[name], start[name]) for name in start)
    attack.observe(ObservedRound(number=4, weights=start, participants=()))
    assert attack.rounds == []
    assert (attack.place, attack.controls) == (Observer.PARTICIPANT, {1})
    assert attack.mark_raised([5, 6]).all()


def test_a_server_isolates_the_clients_whose_messages_it_opens():
    population = federation.draw_population(clients=2)
    attack = GradientAscent(MODEL, population.targets, strength=1e-9)
    federation.run_rounds(MODEL, population, [attack], rounds=2)
    first, second = (next(s for s in attack.list_steps() if s.round_number == n) for n in (0, 1))
    for name in first.after:
        assert np.allclose(second.before[name], first.after[name], atol=1e-6)


@pytest.mark.parametrize("argument", ["strength", "boost", "ridge"])
def test_an_ascent_needs_positive_numbers(argument):
    population = federation.draw_population()
    with pytest.raises(InvalidArgument, match=argument):
        GradientAscent(MODEL, population.targets, **{argument: 0.0})


def test_records_come_out_of_messages_and_not_out_of_a_masked_sum():
    population = federation.draw_population(clients=10, each=4, targets=6)
    model = federation.perceptron(30, 256, 5)
    found = {}
    for name, options in {
        "open": {},
        "masked": {"opened": False},
        "clipped": {"clip": 0.1},
        "noised": {"clip": 0.1, "local_noise": 0.1},
    }.items():
        recorder = RoundRecorder(Observer.SERVER)
        federation.run_rounds(model, population, [recorder], rounds=2, steps=1, **options)
        attack = MessageInversion(inversion=FirstLayer(), learning_rate=0.2, examples=7, clients=10)
        recoveries = attack.run(model, list_steps(recorder.rounds), population.targets, population.coins)
        found[name] = measure_recoveries(recoveries)
    assert found["open"].detected
    assert found["open"].success.value > 0.4
    assert found["clipped"].detected  # a clip is no protection: it scales what is sent
    assert found["masked"].success.value == 0.0
    assert found["noised"].success.value == 0.0
    assert all(leakage.baseline.value == 0.0 for leakage in found.values())


def test_inversion_needs_every_parameter():
    population = federation.draw_population(clients=2)
    recorder = RoundRecorder(Observer.SERVER)
    federation.run_rounds(MODEL, population, [recorder], rounds=1)
    (step, *_) = list_steps(recorder.rounds)
    partial = type(step)(
        round_number=0, before=step.before, update={"0.weight": step.update["0.weight"]}, clients=step.clients
    )
    attack = MessageInversion(inversion=FirstLayer(), learning_rate=0.2, examples=7, clients=2)
    with pytest.raises(InvalidArgument, match="an update of each parameter"):
        attack.recover(MODEL, partial, (30,))


def _property_run(seed, *, opened=True, coins=None, clients=24):
    """Clients, about half of which hold 12 records of 24 from a shifted group."""
    draws = experiment(seed)
    centres, shift = 0.5 * draws.standard_normal((5, 30)), draws.standard_normal(30)

    def draw(count, having):
        labels = draws.integers(0, 5, count)
        inputs = centres[labels] + draws.standard_normal((count, 30)) + having * shift
        return Records(inputs.astype(np.float32), labels)

    coins = draws.random(clients) < 0.5 if coins is None else coins
    held = [draw(12, False).followed_by(draw(12, bool(coin))) for coin in coins]
    population = federation.Population(
        ClientRecords(held[0], np.zeros(24, dtype=int)), coins, [(h.inputs, h.labels) for h in held]
    )
    recorder = RoundRecorder(Observer.SERVER)
    federation.run_rounds(MODEL, population, [recorder], rounds=3, opened=opened)
    examples = ClientExamples(having=draw(80, True), lacking=draw(160, False), examples=24, share=0.5)
    attack = PropertyInference(
        examples, LocalSteps(learning_rate=0.2, batch_size=24, epochs=5), simulations=40, rounds=2
    )
    return attack, list_steps(recorder.rounds), coins


def test_a_property_is_read_off_updates_and_not_off_their_sum():
    attack, steps, coins = _property_run(1)
    assert measure(attack.run(MODEL, steps, np.arange(24), coins)).auc.lower > 0.5
    attack, steps, coins = _property_run(1, opened=False)
    scores = attack.run(MODEL, steps, np.arange(24), coins)
    assert np.ptp(scores.values) == 0.0


def test_properties_refuse_what_does_not_fit():
    attack, steps, _ = _property_run(2)
    with pytest.raises(InvalidArgument, match="one for each of the clients"):
        attack.run(MODEL, steps, np.arange(24), np.ones(3, dtype=bool))
    with pytest.raises(InvalidArgument, match="share"):
        ClientExamples(having=attack.examples.having, lacking=attack.examples.lacking, examples=4, share=0.0)
    with pytest.raises(InvalidArgument, match="simulations"):
        PropertyInference(attack.examples, simulations=1)
