"""Federated runs in one process: what they compute, what they refuse, and what a round survives."""

import importlib.util
import json
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Error, Message, RecordDict
from torch import nn

import privet
from privet.adjacency import AddRemove, ReplaceOne, Unit, ZeroOut
from privet.errors import BudgetExceeded, InvalidArgument, NotProved
from privet.events import Gaussian
from privet.federated import (
    CentralNoise,
    DistributedNoise,
    FedAvg,
    FederatedApp,
    FedSGD,
    InProcessGrid,
    LocalNoise,
    NoisySumProtocol,
    NoNoise,
    PlainSum,
    ServerAdam,
    ServerSGD,
    SumProtocol,
)
from privet.federated.local_training import LocalTraining
from privet.federated.model_layout import ModelLayout
from privet.federated.sums import DistributedGaussian, DistributedSum, FixedPoint, HonestServer, SecureSum
from privet.observed_rounds import Observer
from privet.randomness import SeededNoise
from privet.training import (
    Adaptive,
    BandedNoise,
    CyclicSampling,
    FixedSizeSampling,
    PerLayer,
    PoissonSampling,
    ShuffledSampling,
)

_SPEC = importlib.util.spec_from_file_location(
    "privet_tests_federated", Path(__file__).with_name("federated_tools.py")
)
tools = importlib.util.module_from_spec(_SPEC)
sys.modules["privet_tests_federated"] = tools
_SPEC.loader.exec_module(tools)
make_clients, make_model, FaultyGrid, Spy = tools.make_clients, tools.make_model, tools.FaultyGrid, tools.Spy
ActiveParticipant, AlteringServer = tools.ActiveParticipant, tools.AlteringServer

pytestmark = pytest.mark.filterwarnings("ignore:δ is at least")
DELTA = 1e-3


def run(clients=None, **arguments):
    given = {"rounds": 2, "privacy": NoNoise(), **arguments}
    return privet.federate(make_model(), make_clients(4) if clients is None else clients, **given)


def weights_of(result):
    return ModelLayout(result.model).read(result.model)


def run_faulty(change, *, clients=4, before=None, **arguments):
    """A run whose replies go through ``change``."""
    app = FederatedApp(
        make_model(), make_clients(clients), **{"rounds": 1, "privacy": NoNoise(), **arguments}
    )
    grid = FaultyGrid(InProcessGrid(app.client_app, clients), change, before=before)
    return app.run(grid), grid


def is_training(message):
    return message.metadata.message_type == "train"


FIELDS = ("version", "run", "round", "exchange", "client", "refusal")


def field_of(message, name):
    """A field of a reply to an instruction."""
    return dict(zip(FIELDS, json.loads(message.content["privet"]["head"]), strict=False)).get(name)


def with_field(message, name, value):
    """The same reply with another value in its record."""
    record = dict(message.content["privet"])
    if name == "message":
        record["message"] = value
    else:
        fields = json.loads(record["head"])
        fields[FIELDS.index(name) if is_training(message) else 1] = value
        record["head"] = json.dumps(fields)
    changed = Message(RecordDict({"privet": ConfigRecord(record)}), reply_to=message)
    changed.metadata.__dict__.update(message.metadata.__dict__)
    return changed


# What a run computes


def plain_loop(clients, *, rounds, epochs=1, batch_size=32, learning_rate=0.1, proximal=0.0, seed=0):
    """Federated averaging without an engine."""
    model = make_model()
    for number in range(1, rounds + 1):
        start = [parameter.detach().clone() for parameter in model.parameters()]
        total = [torch.zeros_like(parameter) for parameter in start]
        for client, (inputs, labels) in enumerate(clients):
            with torch.no_grad():
                for parameter, value in zip(model.parameters(), start, strict=True):
                    parameter.copy_(value)
            generator = np.random.default_rng(np.random.SeedSequence((seed, number, client)))
            for _ in range(epochs):
                for batch in torch.from_numpy(generator.permutation(len(inputs))).split(batch_size):
                    model.zero_grad()
                    loss = nn.functional.cross_entropy(model(inputs[batch]), labels[batch])
                    distance = sum(
                        ((p - value) ** 2).sum() for p, value in zip(model.parameters(), start, strict=True)
                    )
                    (loss + proximal / 2 * distance).backward()
                    with torch.no_grad():
                        for parameter in model.parameters():
                            parameter.sub_(parameter.grad, alpha=learning_rate)
            for sum_of, parameter, value in zip(total, model.parameters(), start, strict=True):
                sum_of.add_(parameter.detach() - value)
        with torch.no_grad():
            for parameter, value, change in zip(model.parameters(), start, total, strict=True):
                parameter.copy_(value + change / len(clients))
    return ModelLayout(model).read(model)


@pytest.mark.parametrize("proximal", [0.0, 0.5])
def test_federated_averaging_is_that_of_a_plain_loop(proximal):
    clients = make_clients(5)
    result = run(clients, rounds=3, training=FedAvg(epochs=2, batch_size=5, proximal=proximal))
    expected = plain_loop(clients, rounds=3, epochs=2, batch_size=5, proximal=proximal)
    torch.testing.assert_close(weights_of(result), expected, rtol=1e-5, atol=1e-6)


def test_a_proximal_term_keeps_clients_near():
    moved = [
        float((weights_of(run(rounds=1, training=FedAvg(epochs=30, proximal=mu))) - start()).norm())
        for mu in (0.0, 3.0)
    ]
    assert moved[1] < 0.5 * moved[0]


def start():
    model = make_model()
    return ModelLayout(model).read(model)


def test_federated_sgd_is_one_step_on_the_mean_gradient():
    clients = make_clients(3)
    model = make_model()
    losses = [nn.functional.cross_entropy(model(inputs), labels) for inputs, labels in clients]
    (sum(losses) / 3).backward()
    expected = torch.cat([(p - 0.3 * p.grad).detach().reshape(-1) for p in (model.bias, model.weight)])
    torch.testing.assert_close(
        weights_of(run(clients, rounds=1, training=FedSGD(learning_rate=0.3))), expected, rtol=1e-5, atol=1e-6
    )


def test_the_same_seed_gives_the_same_bits():
    training = FedAvg(batch_size=4)
    first, again = run(training=training), run(training=training)
    other = run(training=training, seed=1)
    assert torch.equal(weights_of(first), weights_of(again))
    assert not torch.equal(weights_of(first), weights_of(other))


def test_global_random_numbers_are_not_touched():
    model, clients = make_model(), make_clients(3)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    privet.federate(model, clients, rounds=1, epsilon=5, delta=DELTA)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("optimizer", "peer"),
    [
        (ServerSGD(learning_rate=0.5, momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9)),
        (
            ServerAdam(learning_rate=0.1, tau=0.01),
            lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.9, 0.99), eps=0.01),
        ),
    ],
)
def test_server_optimisers_are_those_of_torch(optimizer, peer):
    weights = torch.tensor([1.0, -2.0, 3.0])
    parameter = nn.Parameter(weights.clone())
    torch_optimizer, state = peer([parameter]), optimizer.make_state(3)
    for number in range(1, 6):
        update = torch.sin(torch.arange(3.0) + number)
        parameter.grad = -update
        torch_optimizer.step()
        optimizer.apply(weights, update, state, number)
    torch.testing.assert_close(weights, parameter.detach(), rtol=1e-5, atol=1e-6)


def test_public_weights_are_followed_and_sizes_are_not():
    clients = make_clients(3)
    alone = [weights_of(run([client], rounds=1)) - start() for client in clients]
    # A client is told apart by its number in the seed, so one batch of all rows keeps the order out of it.
    weighted = weights_of(run(clients, rounds=1, weights=[1.0, 2.0, 5.0])) - start()
    expected = (alone[0] + 2 * alone[1] + 5 * alone[2]) / 8
    torch.testing.assert_close(weighted, expected, rtol=1e-4, atol=1e-6)
    larger = [clients[0], tuple(torch.cat([column] * 2) for column in clients[1]), clients[2]]
    torch.testing.assert_close(weights_of(run(larger, rounds=1)), weights_of(run(clients, rounds=1)))


def test_integer_counters_stay_out_of_the_vector():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    layout = ModelLayout(model)
    assert "1.num_batches_tracked" not in layout.names
    assert {"1.running_mean", "1.running_var"} <= set(layout.names)
    model[1].num_batches_tracked += 10**6
    assert float(layout.read(model).abs().max()) < 10
    layout.write(torch.full((layout.size,), -1.0), model)
    assert float(model[1].running_var.min()) == 0.0  # a variance
    result = privet.federate(model, make_clients(20), rounds=2, epsilon=5, delta=DELTA)
    assert all(bool(torch.isfinite(value).all()) for value in result.model.state_dict().values())


def test_a_layout_can_be_copied_into_another_process():
    model = make_model()
    layout = ModelLayout(model)
    layout.read(model)
    copied = pickle.loads(pickle.dumps(layout))
    assert (copied.names, copied.size) == (layout.names, layout.size)
    assert torch.equal(copied.read(model), layout.read(model))


def test_frozen_parameters_stay():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    result = privet.federate(model, make_clients(3), rounds=1, privacy=NoNoise())
    assert torch.equal(result.model[0].weight, before)
    assert ModelLayout(model).names == ("1.bias", "1.weight")


def test_clients_may_be_a_function_that_is_called_where_they_run():
    clients = make_clients(4)
    assert torch.equal(weights_of(run()), weights_of(run(lambda number: clients[number], population=4)))


def test_what_is_watched_is_in_the_history():
    result = run(rounds=3, watch=lambda model: float(model.training))
    assert [record.watched for record in result.history] == [0.0, 0.0, 0.0]
    assert [record.number for record in result.history] == [1, 2, 3]


# Messages that cannot be used


def vector_of(message):
    return np.frombuffer(message.content["privet"]["message"], dtype="<f8").copy()


BAD_VECTORS = {
    "another shape": (lambda v: v[:-1], "must have 8 numbers"),
    "NaN": (lambda v: v * np.nan, "finite numbers"),
    "infinite": (lambda v: v + np.inf, "finite numbers"),
    "enormous": (lambda v: v * 1e12, "norm of at most 1e\\+06"),
    "constant": (lambda v: v * 0 + 0.01, "one number everywhere"),
}


@pytest.mark.parametrize("kind", BAD_VECTORS)
def test_a_bad_vector_is_refused_and_the_round_goes_on(kind):
    make, said = BAD_VECTORS[kind]

    def change(message):
        if is_training(message) and field_of(message, "client") == 1:
            return [with_field(message, "message", make(vector_of(message)).tobytes())]
        return [message]

    result, _ = run_faulty(change)
    record = result.history[0]
    assert (record.contributors, record.dropped) == (3, (1,))
    assert set(record.refused) == {1}
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(record.refused[1])
    clients = make_clients(4)
    without = plain_mean([weights_alone(clients[i], i) for i in (0, 2, 3)])
    torch.testing.assert_close(weights_of(result), without, rtol=1e-5, atol=1e-6)


def weights_alone(client, number):
    del number  # one batch of all rows: the order does not matter
    return weights_of(run([client], rounds=1))


def plain_mean(parts):
    return torch.stack(parts).mean(dim=0)


BAD_FIELDS = {
    "a stale round": ("round", 0, "stale or was replayed"),
    "another run": ("run", "0" * 32, "stale or was replayed"),
    "another exchange": ("exchange", 7, "stale or was replayed"),
    "another client": ("client", 3, "names another"),
    "another version": ("version", 99, "same version"),
    "a wrong type": ("message", "text", "the fields of its kind"),
    "a wrong number": ("round", "one", "the fields of its kind"),
}


@pytest.mark.parametrize("kind", BAD_FIELDS)
def test_a_bad_reply_is_refused_and_the_round_goes_on(kind):
    name, value, said = BAD_FIELDS[kind]

    def change(message):
        if is_training(message) and field_of(message, "client") == 1:
            return [with_field(message, name, value)]
        return [message]

    record = run_faulty(change)[0].history[0]
    assert record.contributors == 3
    assert said in record.refused[1]


def test_a_wrong_key_is_refused_and_the_round_goes_on():
    def change(message):
        if is_training(message) and field_of(message, "client") == 1:
            changed = Message(RecordDict({"other": message.content["privet"]}), reply_to=message)
            changed.metadata.__dict__.update(message.metadata.__dict__)
            return [changed]
        return [message]

    record = run_faulty(change)[0].history[0]
    assert record.contributors == 3
    assert "must have the record 'privet'" in record.refused[1]


def test_dropouts_and_failures_do_not_end_a_round():
    def change(message):
        if not is_training(message):
            return [message]
        client = field_of(message, "client")
        if client == 0:
            return []
        if client == 1:
            failed = Message(Error(code=3, reason="the patient's name"), reply_to=message)
            failed.metadata.__dict__.update(message.metadata.__dict__)
            return [failed]
        return [message]

    record = run_faulty(change)[0].history[0]
    assert (record.asked, record.contributors, record.dropped) == (4, 2, (0, 1))
    assert record.refused == {1: "The client failed (code 3). Its own log says why."}


def test_a_client_that_answers_twice_counts_once():
    result, _ = run_faulty(lambda message: [message, message] if is_training(message) else [message])
    record = result.history[0]
    assert record.contributors == 4
    assert "answered again" in record.refused[2]
    assert torch.equal(weights_of(result), weights_of(run(rounds=1)))


def test_a_replayed_message_of_an_earlier_round_is_refused():
    kept = []

    def change(message):
        if is_training(message) and field_of(message, "client") == 2:
            kept.append(message)
            return [kept[0]]
        return [message]

    records = run_faulty(change, rounds=2)[0].history
    assert records[0].contributors == 4
    assert records[1].contributors == 3
    assert "stale or was replayed" in records[1].refused[2]


def test_a_reply_of_an_unknown_node_is_refused():
    def change(message):
        if not is_training(message) or field_of(message, "client") != 1:
            return [message]
        stranger = with_field(message, "client", 1)
        stranger.metadata.__dict__["_src_node_id"] = 999
        return [stranger, message]

    record = run_faulty(change)[0].history[0]
    assert record.contributors == 4
    assert "must come from a client that was asked" in record.refused[-1]


def test_a_node_that_claims_the_number_of_another_does_not_count_twice():
    def change(message):
        return [message] if is_training(message) else [with_field(message, "client", 0)]

    with pytest.warns(UserWarning, match="3 of 4 clients are not connected"):
        result, _ = run_faulty(change, wait=0.01)
    assert result.history[0].contributors == 1
    assert result.history[0].dropped == (1, 2, 3)


def test_a_node_that_fails_when_it_is_asked_for_its_number_is_asked_again():
    failures = []

    def change(message):
        if is_training(message) or len(failures) >= 4:
            return [message]
        failures.append(message)
        failed = Message(Error(code=3, reason="busy"), reply_to=message)
        failed.metadata.__dict__.update(message.metadata.__dict__)
        return [failed]

    assert run_faulty(change, wait=5.0)[0].history[0].contributors == 4


def test_a_run_without_any_client_says_so():
    with pytest.raises(InvalidArgument, match="none was after 0.01 s"):
        run_faulty(lambda message: [], wait=0.01)


def test_a_client_whose_data_fail_is_dropped():
    clients = make_clients(3)
    clients[1] = (clients[1][0][:0], clients[1][1][:0])
    record = run(lambda number: clients[number], population=3, rounds=1).history[0]
    assert record.contributors == 2
    assert "must have examples" in record.refused[1]


def test_data_in_this_process_are_checked_before_anything_is_spent(tmp_path):
    clients = make_clients(3)
    clients[2] = (clients[2][0][:, :2], clients[2][1])
    with pytest.raises(InvalidArgument):
        run(clients, epsilon=3, delta=DELTA, privacy=CentralNoise(), checkpoint=tmp_path)
    assert not (tmp_path / "state.pt").exists()
    assert not json.loads((tmp_path / "spent.json").read_text())["reserved"]


PRIVATE = [CentralNoise(clip=1.0), CentralNoise(), LocalNoise(clip=1.0)]


@pytest.mark.parametrize("privacy", PRIVATE, ids=["flat", "adaptive", "local"])
def test_where_noise_hides_the_data_no_answer_tells_that_a_client_cannot_train(privacy, caplog):
    """Its answer has the form of the others: it contributes an update of 0, and its own log says why."""
    spy = Spy(Observer.SERVER)
    clients = make_clients(3)
    clients[1] = (clients[1][0][:0], clients[1][1][:0])
    record = run(
        lambda number: clients[number],
        population=3,
        rounds=1,
        epsilon=5,
        delta=DELTA,
        privacy=privacy,
        observers=[spy],
    ).history[0]
    assert (record.contributors, record.refused, record.failure) == (3, {}, "")
    assert len({len(message.payload) for message in spy.seen[0].messages}) == 1
    assert "Client 1 contributes nothing to round 1" in caplog.text
    silent = spy.seen[0].messages[1].update["weight"]
    assert bool(silent.any()) == isinstance(privacy, LocalNoise)


class Diverging(LocalTraining):
    """Ends with weights that are no numbers, as training with too high a learning rate does."""

    def train(self, model, objective, generator):
        with torch.no_grad():
            model.bias.fill_(float("nan"))


def test_a_client_that_diverges_is_dropped():
    record = run(rounds=1, training=Diverging()).history[0]
    assert record.contributors == 0
    assert "must be finite" in record.refused[0]


def test_a_client_answers_each_exchange_once():
    clients = make_clients(2)
    app = FederatedApp(make_model(), clients, rounds=3, privacy=NoNoise())
    inner = InProcessGrid(app.client_app, 2)
    again = []

    def change(message):
        return [message]

    def before(messages):
        if messages and messages[0].metadata.message_type == "train":
            again.extend(inner.send_and_receive(messages))  # the server asks, and then asks once more

    result = app.run(FaultyGrid(inner, change, before=before))
    assert all(record.contributors == 0 for record in result.history)
    assert "is not the next one" in result.history[0].refused[0]


# Privacy


def test_epsilon_is_reached_and_not_exceeded():
    result = run(make_clients(60), rounds=4, epsilon=3.0, delta=DELTA, privacy=CentralNoise())
    assert 2.9 < result.epsilon(delta=DELTA) <= 3.0
    assert result.ledger.adjacency == ZeroOut(Unit.CLIENT)
    assert [entry.label for entry in result.ledger] == [f"federated round {n}" for n in range(1, 5)]


def test_without_noise_there_is_no_ledger():
    result = run()
    assert result.ledger is None
    with pytest.raises(NotProved, match="Nobody added noise"):
        result.guarantee()


def test_updates_are_clipped_and_a_client_that_is_not_is_refused():
    spy = Spy(Observer.SERVER)
    run(rounds=1, epsilon=5, delta=DELTA, privacy=CentralNoise(clip=0.01), observers=[spy])
    for message in spy.seen[0].messages:
        norm = float(np.sqrt(sum((array**2).sum() for array in message.update.values())))
        assert 0.0099 < norm <= 0.01

    def change(message):
        if is_training(message) and field_of(message, "client") == 1:
            return [with_field(message, "message", (vector_of(message) * 1.01).tobytes())]
        return [message]

    result, _ = run_faulty(change, epsilon=5, delta=DELTA, privacy=CentralNoise(clip=0.01))
    assert (
        result.history[0].refused[1]
        == "The update must have a norm of at most 0.01, and has a larger one. Clip it."
    )


def test_weights_keep_the_clip_and_the_divisor_is_public():
    spy = Spy(Observer.SERVER)
    arguments = {"rounds": 1, "epsilon": 5, "delta": DELTA, "privacy": CentralNoise(clip=0.01)}
    run(weights=[1.0, 2.0, 4.0, 1.0], observers=[spy], **arguments)
    norms = [
        float(np.sqrt(sum((array**2).sum() for array in message.update.values())))
        for message in spy.seen[0].messages
    ]
    assert norms == pytest.approx([0.0025, 0.005, 0.01, 0.0025], rel=1e-4)


def test_the_adaptive_bound_follows_the_norms_and_a_false_count_is_refused():
    clients = make_clients(60)
    privacy = CentralNoise(clip=Adaptive(10.0, learning_rate=1.0), sampling=PoissonSampling(1.0))
    result = run(clients, rounds=6, epsilon=20, delta=1e-5, privacy=privacy)
    bounds = [record.clip_bound for record in result.history]
    assert bounds[0] == 10.0
    assert bounds[-1] < 2.0  # half of the updates are below 0.1, so the bound falls by up to e^-½ a round
    assert result.epsilon(delta=1e-5) <= 20

    def change(message):
        if is_training(message) and field_of(message, "client") == 1:
            vector = vector_of(message)
            vector[-1] = 40.0
            return [with_field(message, "message", vector.tobytes())]
        return [message]

    faulty, _ = run_faulty(change, epsilon=20, delta=DELTA, privacy=CentralNoise())
    assert "½ or −½" in faulty.history[0].refused[1]


def test_each_client_has_its_own_ledger_under_local_noise():
    result = run(
        make_clients(6),
        rounds=4,
        epsilon=3,
        delta=DELTA,
        privacy=LocalNoise(clip=1.0, sampling=FixedSizeSampling(2)),
        noise=SeededNoise(3),
    )
    times = [len(ledger) for ledger in result.client_ledgers.values()]
    assert sum(times) == 8
    assert result.ledger == max(result.client_ledgers.values(), key=len)
    assert result.ledger.adjacency == ReplaceOne(Unit.CLIENT)
    assert result.epsilon(delta=DELTA) <= 3


def test_a_client_takes_part_in_no_more_rounds_than_it_pays_for():
    clients = make_clients(2)
    arguments = {"rounds": 2, "epsilon": 3, "delta": DELTA, "privacy": LocalNoise(clip=1.0)}
    app = FederatedApp(make_model(), clients, **arguments)
    grid = InProcessGrid(app.client_app, 2)
    app.run(grid)
    greedy = app.run(grid)  # the same clients are asked again
    assert [record.contributors for record in greedy.history] == [0, 0]
    assert "all 2 rounds of its plan" in greedy.history[0].refused[0]


def test_a_run_without_contributors_still_adds_noise_and_counts():
    result, _ = run_faulty(
        lambda message: [] if is_training(message) else [message],
        rounds=2,
        epsilon=3,
        delta=DELTA,
        privacy=CentralNoise(clip=1.0),
    )
    assert len(result.ledger) == 2
    assert not torch.equal(weights_of(result), start())


# What an adversary sees


def test_a_server_sees_messages_and_a_participant_sees_models():
    server, participant = Spy(Observer.SERVER), Spy(Observer.PARTICIPANT)
    run(observers=[server, participant])
    first, second = server.seen
    assert first.number == 1
    assert first.participants == (0, 1, 2, 3)
    assert [message.client for message in first.messages] == [0, 1, 2, 3]
    added = sum(message.update["weight"] for message in first.messages)
    np.testing.assert_allclose(first.total["weight"], added, atol=1e-12)
    np.testing.assert_allclose(
        second.weights["weight"], first.weights["weight"] + first.total["weight"] / 4, atol=1e-6
    )
    assert all(len(message.payload) == 8 * 8 for message in first.messages)
    for seen in participant.seen:
        assert (seen.participants, seen.messages, seen.total) == ((), (), None)
    np.testing.assert_array_equal(participant.seen[1].weights["bias"], second.weights["bias"])


def test_a_participant_sees_the_rounds_of_the_clients_that_it_controls():
    spy = Spy(Observer.PARTICIPANT, controls=frozenset({0}))
    server = Spy(Observer.SERVER)
    run(
        rounds=12,
        privacy=NoNoise(sampling=FixedSizeSampling(1)),
        observers=[spy, server],
        noise=SeededNoise(1),
    )
    asked = [seen.number for seen in server.seen if 0 in seen.participants]
    assert [seen.number for seen in spy.seen] == asked
    assert 0 < len(asked) < 12


def test_an_active_server_changes_what_one_client_gets():
    server = Spy(Observer.SERVER)
    quiet = Spy(Observer.SERVER)
    run(rounds=1, observers=[server, AlteringServer(2, 1.0)])
    run(rounds=1, observers=[quiet])
    for altered, plain in zip(server.seen[0].messages, quiet.seen[0].messages, strict=True):
        same = np.array_equal(altered.update["weight"], plain.update["weight"])
        assert same == (altered.client != 2)
    np.testing.assert_array_equal(server.seen[0].weights["weight"], quiet.seen[0].weights["weight"])


def test_an_active_participant_is_clipped_as_others_are():
    server = Spy(Observer.SERVER)
    run(
        rounds=1,
        observers=[server, ActiveParticipant(1, 50.0)],
        epsilon=5,
        delta=DELTA,
        privacy=CentralNoise(clip=0.5),
    )
    update = server.seen[0].messages[1].update
    assert float(np.sqrt(sum((array**2).sum() for array in update.values()))) == pytest.approx(0.5, rel=1e-4)
    assert update["bias"][0] == pytest.approx(2 * update["bias"][1])


# Refusals before anything is spent

REFUSALS = [
    ({"epsilon": None, "privacy": CentralNoise()}, InvalidArgument, "must be given for a private run"),
    ({"epsilon": 1.0}, InvalidArgument, "must be left out with NoNoise"),
    ({"rounds": 0}, InvalidArgument, "'rounds' must be at least 1"),
    ({"clients": []}, InvalidArgument, "at least one clients, got 0"),
    ({"clients": {"a": 1}}, InvalidArgument, "'clients' must be a list"),
    ({"clients": make_clients, "population": None}, InvalidArgument, "'population' must be given"),
    ({"population": 9}, InvalidArgument, "must have the data of 9 clients, got 4"),
    ({"weights": [1.0]}, InvalidArgument, "'weights' must have a number for each of the 4"),
    ({"weights": [1.0, 2.0, 0.0, 1.0]}, InvalidArgument, "'weights' must be above 0"),
    ({"timeout": 0.0}, InvalidArgument, "'timeout' must be above 0"),
    (
        {"privacy": CentralNoise(clip=PerLayer(1.0)), "epsilon": 1, "delta": 0.01},
        InvalidArgument,
        "whole update",
    ),
    (
        {"privacy": CentralNoise(adjacency=ZeroOut()), "epsilon": 1, "delta": 0.01},
        InvalidArgument,
        "'adjacency' must be about clients",
    ),
    (
        {
            "privacy": CentralNoise(correlation=BandedNoise((1.0, 0.5)), sampling=CyclicSampling(2)),
            "epsilon": 1,
            "delta": 0.01,
        },
        NotProved,
        "Give a fixed clip",
    ),
    (
        {
            "privacy": CentralNoise(sampling=ShuffledSampling(2), adjacency=AddRemove(Unit.CLIENT)),
            "epsilon": 1,
            "delta": 0.01,
        },
        NotProved,
        "no proved ε under add-remove",
    ),
    ({"privacy": LocalNoise(clip=Adaptive(1.0)), "epsilon": 1, "delta": 0.01}, NotProved, "fixed clip bound"),
    ({"privacy": NoNoise(clip=Adaptive(1.0))}, InvalidArgument, "'clip' must be fixed"),
    (
        {"privacy": DistributedNoise(least_contributors=3), "epsilon": 1, "delta": 0.01},
        InvalidArgument,
        "must be a protocol with noise",
    ),
]


@pytest.mark.parametrize(("arguments", "kind", "said"), REFUSALS)
def test_what_cannot_be_is_refused_before_anything_is_asked(arguments, kind, said, tmp_path):
    given = {"rounds": 1, "epsilon": None, "delta": None, "privacy": NoNoise(), "clients": make_clients(4)}
    given |= {"checkpoint": tmp_path / "run"} | arguments
    with pytest.raises(kind, match=said):
        privet.federate(make_model(), given.pop("clients"), **given)
    assert not (tmp_path / "run").exists()


def test_a_model_without_weights_to_train_is_refused():
    with pytest.raises(InvalidArgument, match="trainable parameters"):
        privet.federate(nn.ReLU(), make_clients(2), rounds=1, privacy=NoNoise())
    with pytest.raises(InvalidArgument, match="parameters on 'meta'"):
        privet.federate(nn.Linear(3, 2, device="meta"), make_clients(2), rounds=1, privacy=NoNoise())


def test_the_way_in_needs_no_more_than_a_name():
    assert privet.federated.federate is privet.federate or callable(privet.federate)
    assert "federate" in dir(privet)
    assert PlainSum().threat_model
    assert issubclass(BudgetExceeded, privet.errors.PrivetError)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(rounds=1)


# Sums that hide single vectors

THREAT = HonestServer(colluding=0.2, dropouts=0.3)


def test_a_masked_sum_gives_the_model_of_a_plain_sum_and_shows_no_update():
    spy = Spy(Observer.SERVER)
    masked = SecureSum.for_one_process(range(12), encoding=FixedPoint(largest=10.0), threat=THREAT)
    clients = make_clients(12)
    result = run(clients, sums=masked, observers=[spy])
    torch.testing.assert_close(weights_of(result), weights_of(run(clients)), rtol=1e-6, atol=1e-6)
    for message in spy.seen[0].messages:
        assert message.update is None
        assert len(message.payload) > 0
    assert spy.seen[0].total is not None


def test_dropouts_of_a_masked_sum_do_not_end_the_round():
    masked = SecureSum.for_one_process(range(12), encoding=FixedPoint(largest=10.0), threat=THREAT)

    def change(message):
        if not is_training(message):
            return [message]
        late = field_of(message, "exchange") >= 2 and field_of(message, "client") in (3, 7)
        return [] if late else [message]

    result, _ = run_faulty(change, clients=12, sums=masked)
    record = result.history[0]
    assert record.failure == ""
    assert record.dropped == (3, 7)
    assert record.contributors == 10


def test_a_round_with_too_few_clients_fails_and_the_run_goes_on():
    masked = SecureSum.for_one_process(range(12), encoding=FixedPoint(largest=10.0), threat=THREAT)

    def change(message):
        if not is_training(message):
            return [message]
        return [] if field_of(message, "round") == 1 and field_of(message, "client") > 3 else [message]

    result, _ = run_faulty(change, clients=12, sums=masked, rounds=2)
    assert result.history[0].failure
    assert result.history[0].contributors == 0
    assert result.history[1].contributors == 12


def test_the_clients_add_the_noise_together_and_the_server_none():
    clients, rounds = 40, 2
    plan = THREAT.plan(clients)
    encoding = DistributedGaussian.fit(
        clip=0.1, noise_multiplier=1.0, shares=plan.together, clients=clients, length=8
    )
    noisy = DistributedSum(SecureSum.for_one_process(range(clients), encoding=encoding, threat=THREAT))
    spy = Spy(Observer.SERVER)
    result = run(
        make_clients(clients),
        rounds=rounds,
        epsilon=3.0,
        delta=DELTA,
        privacy=DistributedNoise(least_contributors=plan.together),
        sums=noisy,
        observers=[spy],
    )
    assert 2.5 < result.epsilon(delta=DELTA) <= 3.0
    assert len(result.ledger) == rounds
    moved = spy.seen[1].weights["weight"] - spy.seen[0].weights["weight"]
    np.testing.assert_allclose(moved, spy.seen[0].total["weight"] / clients, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("privacy", [NoNoise(), CentralNoise(), LocalNoise(clip=1.0)])
def test_noise_of_a_protocol_is_not_added_to_other_noise(privacy):
    encoding = DistributedGaussian.fit(clip=0.1, noise_multiplier=1.0, shares=20, clients=40, length=8)
    noisy = DistributedSum(SecureSum.for_one_process(range(40), encoding=encoding, threat=THREAT))
    with pytest.raises(InvalidArgument, match="must be a protocol without noise"):
        run(make_clients(40), epsilon=3.0, delta=DELTA, privacy=privacy, sums=noisy)


class WeakSum(NoisySumProtocol):
    """Opens sums with too little noise, as a protocol must not."""

    threat_model, clip_bound = "nobody", 1.0

    def with_noise(self, noise_multiplier):
        self.noise_multiplier = noise_multiplier
        return self

    def event(self, *, length, contributors):
        return Gaussian(self.noise_multiplier)

    def serve(self, *, round_number, clients, length):
        return PlainSum().serve(round_number=round_number, clients=clients[:1], length=length)

    def answer(self, *, client, message, state, vector):
        return PlainSum().answer(client=client, message=message, state=state, vector=vector)


def test_a_sum_with_too_little_noise_ends_the_run():
    with pytest.raises(NotProved, match="with 1 contributors, and its noise needs 3"):
        run(epsilon=3.0, delta=DELTA, privacy=DistributedNoise(least_contributors=3), sums=WeakSum())


class CoarseSum(SumProtocol):
    """A plain sum of numbers that clients round, as fixed-point numbers do; ``norms`` has those of all vectors."""

    threat_model = "nobody"

    def __init__(self, bits, largest=10.0):
        self.encoding, self.norms = FixedPoint(largest=largest, fraction_bits=bits), []

    @property
    def largest_number(self):
        return self.encoding.largest_number

    def bound_growth(self, length):
        return self.encoding.bound_growth(length)

    def serve(self, *, round_number, clients, length):
        return PlainSum().serve(round_number=round_number, clients=clients, length=length)

    def answer(self, *, client, message, state, vector):
        exact = vector()
        words = self.encoding.encode(exact, round_number=1, length=exact.size)
        rounded = self.encoding.decode(words, round_number=1, length=exact.size)
        self.norms.append(float(np.linalg.norm(rounded)))
        return PlainSum().answer(client=client, message=message, state=state, vector=lambda: rounded)


def test_rounded_updates_stay_within_the_clip_that_the_servers_noise_hides():
    """Numbers just above half a step are all rounded up: the norm that is added would be above the clip."""
    sums = CoarseSum(bits=6)
    result = run(
        make_clients(30), epsilon=3.0, delta=DELTA, rounds=1, privacy=CentralNoise(clip=0.06), sums=sums
    )
    assert len(sums.norms) == result.history[0].contributors == 30
    assert max(sums.norms) <= 0.06
    assert max(sums.norms) > 0.01


def test_a_sum_that_rounds_too_coarsely_for_the_clip_is_refused():
    with pytest.raises(InvalidArgument, match="more bits behind the point"):
        run(epsilon=3.0, delta=DELTA, privacy=CentralNoise(clip=0.01), sums=CoarseSum(bits=6))


def test_whether_a_client_is_in_a_sum_does_not_depend_on_how_large_its_update_is():
    """A refusal of large numbers would tell of the data, and could end a round that a neighbour does not end."""
    sums = CoarseSum(bits=20, largest=0.7)
    result = run(
        make_clients(30),
        epsilon=3.0,
        delta=DELTA,
        rounds=1,
        privacy=CentralNoise(clip=9.0),
        sums=sums,
        training=FedSGD(learning_rate=9.0),
    )
    assert result.history[0].refused == {}
    assert result.history[0].contributors == 30
    assert max(sums.norms) > 0.69
