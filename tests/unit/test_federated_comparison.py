"""Attack by defence on live federated runs: the game, what each defence proves, the table and its page."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="clients train torch models")
pytest.importorskip("flwr", reason="Flower carries the messages")

from torch import nn  # noqa: E402

from privet.adjacency import ReplaceOne, Unit  # noqa: E402
from privet.auditing import Rate  # noqa: E402
from privet.errors import InvalidArgument, NotProved  # noqa: E402
from privet.federated import FedAvg, NoNoise, federate  # noqa: E402
from privet.observed_rounds import Observer  # noqa: E402
from privet.pipeline.federated_attacks import FederatedAttackPlan  # noqa: E402
from privet.pipeline.federated_comparison import MessageSight, compare_federated  # noqa: E402
from privet.pipeline.federated_defences import list_federated_defences, prove_for_record  # noqa: E402
from privet.pipeline.federated_game import draw_federated_game  # noqa: E402
from privet.randomness import experiment  # noqa: E402
from privet.reporting.facts import Origin  # noqa: E402
from privet.reporting.federated_facts import AttackedDefence, FederatedAttack  # noqa: E402
from privet.reporting.federated_report import FederatedComparison  # noqa: E402
from privet.scores import Records  # noqa: E402
from privet.shared_gradients import LocalSteps, OneStep  # noqa: E402


def draw_records(count=300):
    draws = experiment(0)
    return Records(draws.random((count, 16)).astype(np.float32), draws.integers(0, 4, count))


def mark(inputs):
    return np.concatenate([np.ones_like(inputs[:, :4]), inputs[:, 4:]], axis=1)


def make_model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 4))


def plan_attacks(**options):
    return FederatedAttackPlan(
        **{
            "make_model": make_model,
            "rounds": 3,
            "training": FedAvg(epochs=1, batch_size=9, learning_rate=0.5),
            "watched": 2,
            "active_from": 1,
            "simulations": 8,
            **options,
        }
    )


@pytest.fixture(scope="module")
def game():
    return draw_federated_game(draw_records(), clients=8, own=5, slots=4, seed=2, mark=mark)


@pytest.fixture(scope="module")
def comparison(game):
    told = []
    found = compare_federated(
        plan_attacks(),
        game,
        list_federated_defences(clients=8, epsilon=2.0, delta=1e-3, clip=0.5)[:3],
        sight=MessageSight("0", (4, 4)),
        tell=told.append,
    )
    assert told[0] == "[1/3] no defence: training"
    return found


def test_every_client_has_as_many_records_whatever_the_coins(game):
    assert {len(records) for records in game.clients} == {9} == {game.records_each}
    assert len(game.targets) == 32
    assert 0 < game.coins.sum() < 32


def test_a_target_is_with_its_home_exactly_if_its_coin_says_so(game):
    for place, home in enumerate(game.targets.homes):
        for client, records in enumerate(game.clients):
            held = (records.inputs == game.targets.records.inputs[place]).all(axis=1).any()
            assert held == (client == home and game.coins[place])


def test_own_records_have_the_property_exactly_if_the_coin_of_the_client_says_so(game):
    for records, coin in zip(game.clients, game.with_property, strict=True):
        assert (records.inputs[:5, :4] == 1.0).all() == coin
        assert not (records.inputs[5:, :4] == 1.0).all()


def test_a_game_needs_enough_records():
    with pytest.raises(InvalidArgument, match="Take fewer clients"):
        draw_federated_game(draw_records(100), clients=8, own=5, slots=4, seed=2)
    with pytest.raises(InvalidArgument, match="slots"):
        draw_federated_game(draw_records(), clients=8, own=5, slots=0, seed=2)


def test_noise_of_the_server_is_no_proof_against_the_server():
    defences = {
        each.name: each
        for each in list_federated_defences(clients=60, epsilon=1.0, delta=1e-3, clip=1.0, everything=True)
    }
    covered = {name: each.covered for name, each in defences.items()}
    assert covered == {
        "no defence": "nobody",
        "clipping + noise": "participants",
        "secure aggregation": "nobody",
        "both": "participants",
        "noise of each client": "the server and participants",
        "masks + shared noise": "the server and participants",
        "homomorphic encryption": "nobody",
    }
    assert not defences["both"].covers(Observer.SERVER)


def test_a_record_is_protected_by_the_exchange_of_its_client(game):
    defence = list_federated_defences(clients=8, epsilon=1.0, delta=1e-2, clip=1.0)[1]
    clients = [(torch.tensor(each.inputs), torch.tensor(each.labels)) for each in game.clients]
    run = federate(make_model(), clients, rounds=2, epsilon=1.0, delta=1e-2, privacy=defence.privacy)
    claim = prove_for_record(run)
    assert claim.adjacency == ReplaceOne(Unit.CLIENT)
    assert claim.epsilon(delta=1e-2) > run.epsilon(
        delta=1e-2
    )  # an exchange is twice as far as a zeroed client
    open_run = federate(make_model(), clients, rounds=2, privacy=NoNoise())
    with pytest.raises(NotProved):
        prove_for_record(open_run)


def test_the_table_has_every_attack_under_every_defence(comparison):
    assert [each.name for each in comparison.defences] == [
        "no defence",
        "clipping + noise",
        "secure aggregation",
    ]
    assert comparison.keys == (
        "membership, server",
        "membership, participant",
        "property, server",
        "inversion, server",
        "membership, active server",
        "membership, active participant",
    )
    for defence in comparison.defences:
        for attack in defence.attacks:
            covered = defence.name == "clipping + noise" and attack.observer == "participant"
            assert (attack.ceiling is not None) == covered == (attack.sure_ceiling is not None)
            assert not attack.exceeded
            if covered:
                assert attack.baseline.value <= attack.ceiling <= attack.sure_ceiling <= 1
    assert comparison.defences[1].epsilon_proved <= 2.0
    assert comparison.defences[0].epsilon_proved is None


def test_masks_hide_messages_and_leave_the_sum(comparison):
    plain, masked = comparison.defences[0], comparison.defences[2]
    assert plain.find("inversion, server").detected
    assert masked.find("inversion, server").success.value == 0.0
    assert "open update" in plain.sight.words
    assert "bytes" in masked.sight.words
    assert masked.sight.pictures[0].pixels.shape == (4, 4)


def test_the_figures_as_plain_data(comparison):
    document = json.loads(json.dumps(comparison.to_plain(), allow_nan=False))
    assert [run["defence"] for run in document["runs"]] == [each.name for each in comparison.defences]
    run = document["runs"][1]
    assert {"test_accuracy", "epsilon_proved", "delta", "covers", "attacks"} <= run.keys()
    for attack in run["attacks"]:
        assert {"attack", "success", "baseline", "ceiling"} <= attack.keys()
        low, high = attack["success_interval"]
        assert low <= attack["success"] <= high


def test_every_form_is_written_and_others_are_refused(comparison, tmp_path):
    page = comparison.save(tmp_path / "a.html").read_text(encoding="utf-8")
    for words in (
        "Attack by defence",
        "What the server sees of one client",
        "membership, active server",
        "no ceiling",
    ):
        assert words in page
    shown = sum(len(each.sight.pictures) for each in comparison.defences)
    assert page.count('<img src="data:image/png;base64,') == 6 + shown > 12
    assert "| membership, server |" in comparison.save(tmp_path / "a.md").read_text(encoding="utf-8")
    assert json.loads(comparison.save(tmp_path / "a.json").read_text(encoding="utf-8"))["version"] == 1
    with pytest.raises(InvalidArgument, match="which form"):
        comparison.save(tmp_path / "a.txt")
    assert len(comparison.to_pandas()) == 18
    assert "3 defences, 6 attacks" in repr(comparison)


def _attack(success, ceiling=None, *, exceeded=False):
    return FederatedAttack(
        attack="membership",
        observer="server",
        active=False,
        method="alignment over rounds",
        wants="whether",
        targets=10,
        success=Rate(success, success - 0.1, success + 0.1),
        baseline=Rate(0.2, 0.1, 0.3),
        leak=Rate(success - 0.2, success - 0.4, success),
        ceiling=ceiling,
        sure_ceiling=ceiling,
        exceeded=exceeded,
    )


def _compare(**attacks):
    return FederatedComparison(
        defences=[
            AttackedDefence(name=name, words=name, test_accuracy=Rate(0.5, 0.4, 0.6), attacks=(attack,))
            for name, attack in attacks.items()
        ],
        clients=3,
        rounds=2,
        records=5,
        confidence=0.95,
        origin=Origin(command="c", version="0"),
    )


def test_the_verdict_names_what_is_above_its_ceiling():
    broken = _compare(open=_attack(0.9), noised=_attack(0.8, 0.4, exceeded=True))
    assert broken.exceeded == (("noised", "membership, server"),)
    assert "the guarantee does not hold there" in broken.verdict
    fine = _compare(open=_attack(0.9), noised=_attack(0.3, 0.4))
    assert "The strongest attack is membership, server, under 'open'" in fine.verdict
    assert "least under 'noised'" in fine.verdict


def test_names_of_defences_differ_and_there_is_one():
    one = AttackedDefence(name="a", words="a", test_accuracy=Rate(0.5, 0.4, 0.6), attacks=())
    for defences in ([], [one, one]):
        with pytest.raises(InvalidArgument):
            FederatedComparison(
                defences=defences,
                clients=3,
                rounds=2,
                records=5,
                confidence=0.95,
                origin=Origin(command="c", version="0"),
            )


def test_a_plan_says_how_updates_are_made():
    assert plan_attacks().describe_sharing(9) == OneStep()
    several = plan_attacks(training=FedAvg(epochs=2, batch_size=3, learning_rate=0.5)).describe_sharing(9)
    assert several == LocalSteps(learning_rate=0.5, batch_size=3, epochs=2)
    assert plan_attacks(training=FedAvg(epochs=2, batch_size=4)).describe_sharing(9).batch_size == 9
    with pytest.raises(InvalidArgument, match="Begin earlier"):
        plan_attacks(active_from=3)
    with pytest.raises(InvalidArgument, match="rounds"):
        plan_attacks(rounds=1)


def test_nothing_to_compare_is_refused(game):
    with pytest.raises(InvalidArgument, match="list_federated_defences"):
        compare_federated(plan_attacks(), game, [])


@pytest.mark.slow
def test_every_defence_runs_and_no_attack_is_above_its_ceiling():
    """Also noise of each client, noise shared behind masks, and encryption. At a confidence of 99.99 % for each interval."""
    pytest.importorskip("tenseal", reason="encryption comes from tenseal")
    game = draw_federated_game(draw_records(1000), clients=40, own=5, slots=4, seed=2, mark=mark)
    found = compare_federated(
        plan_attacks(confidence=0.9999),
        game,
        list_federated_defences(clients=40, epsilon=1.0, delta=1e-3, clip=0.5, everything=True),
    )
    assert len(found.defences) == 7
    assert found.exceeded == ()
    for defence in found.defences[4:6]:
        assert all(attack.ceiling is not None for attack in defence.attacks)
    encrypted = found.defences[6]
    assert encrypted.find("inversion, server").success.value == 0.0
