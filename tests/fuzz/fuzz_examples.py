"""Objects of real, small runs. The fuzzer takes them apart, so that it has an object of nearly every class without naming one."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import polars
import torch

import privet
from privet import attacks, auditing, learning, mechanisms, releasing, testing, training
from privet.attacks import shadows

ROWS = np.random.default_rng(0).normal(size=(40, 3))
LABELS = (ROWS[:, 0] > 0).astype(np.int64)
TABLE = {"who": list(range(40)), "key": ["a", "b"] * 20, "value": [1.0, 2.0, 3.0, 4.0] * 10}
FRAME = polars.DataFrame(TABLE)
ADD = privet.AddRemove()


def model():
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def tensors():
    return torch.tensor(ROWS, dtype=torch.float32), torch.tensor(LABELS)


def _accounting():
    event = privet.dp_sgd(noise_multiplier=1.0, sampling_rate=0.1, steps=10)
    ledger = privet.Ledger(ADD).spend("a", event)
    yield ledger
    yield privet.account(ledger)
    yield privet.account(ledger).group(size=2)
    yield privet.account(ledger).kept_loss(delta=1e-5)
    yield privet.calibrate(
        privet.events.Gaussian, privet.EpsilonTarget(epsilon=1.0, delta=1e-5), adjacency=ADD
    )
    yield from testing.TRUTHS
    yield from testing.ACCOUNTANTS
    for accountant in testing.ACCOUNTANTS:
        for claim in (privet.events.Laplace(1.0), privet.events.Gaussian(1.0)):
            try:
                yield accountant.atom(claim, ADD)
            except privet.errors.PrivetError:
                continue


def _releasing():
    statistics = {"n": releasing.Count(), "s": releasing.Sum("value", 0, 5)}
    store = releasing.MemoryStore(privet.AddRemove(privet.Unit.USER), budget=releasing.Budget(epsilon=9.0))
    yield store
    yield privet.release(FRAME, statistics, unit="who", epsilon=1.0, store=store)
    plan = releasing.ReleasePlan(
        statistics=tuple(statistics.items()), unit="who", budget=releasing.Budget(epsilon=1.0)
    )
    yield plan
    yield plan.quote()
    yield releasing.filter_state(store.ledger)
    yield releasing.choose_engine(FRAME)
    synthetic = __import__("privet.releasing.synthetic", fromlist=["MST"])
    domain = synthetic.Domain(
        (synthetic.Categories("key", ("a", "b")), synthetic.Bins("value", (0.0, 2.0, 5.0)))
    )
    mechanism = synthetic.MST(domain=domain, epsilon=5.0, delta=1e-6, adjacency=ADD)
    yield mechanism
    yield mechanism.start(TABLE)
    yield mechanism.release(TABLE)
    yield synthetic.all_marginals(domain, 1)
    yield synthetic.MirrorDescent()
    durable = __import__("privet.releasing.durable", fromlist=["DurableLedger"])
    path = Path(tempfile.mkdtemp()) / "ledger.json"
    held = durable.DurableLedger(path=path, adjacency=ADD, budget=None)
    yield held
    yield held.open().__enter__()


def _mechanisms():
    yield mechanisms.Laplace.calibrated(mechanisms.Count(), epsilon=1.0, adjacency=ADD)
    yield mechanisms.Sum(0.0, 1.0)
    yield mechanisms.SparseVector(1.0, 1.0, ADD).release(list(range(20)))
    yield mechanisms.TallyOf(("a", "b"))
    yield mechanisms.QuantileRank(0.5, 0.0, 1.0)
    yield mechanisms.KaryResponse(("a", "b"), 0.9, privet.ReplaceOne())
    yield learning.NoisySGD()


class Watching(shadows.ShadowEngine):
    """An engine that remembers what it was given."""

    name = "watching"

    def __init__(self):
        self.jobs = []

    def refusal(self, job):
        return None

    def run(self, job, models, tick):
        self.jobs.append(job)
        return shadows.Sequential().run(job, models, tick)


def _attacking():
    from sklearn.linear_model import LogisticRegression

    from privet.scores import Challenge, Records

    records = Records(ROWS, LABELS)
    fitted = LogisticRegression().fit(ROWS, LABELS)
    view = attacks.see(fitted)
    yield view
    yield attacks.see(model())
    challenge = Challenge(records, np.arange(40) % 2 == 0)
    yield challenge
    recipe = shadows.ScikitRecipe(LogisticRegression())
    yield recipe
    watching = Watching()
    yield shadows.conduct(recipe, records, 4, seed=0, engine=watching, progress=False)
    yield watching.jobs
    scores = attacks.Loss().run(view, challenge)
    yield scores
    yield auditing.measure(scores)
    yield auditing.Roc.of(scores)
    yield auditing.leakage_by_group(scores, np.array(["a", "b"] * 20))
    yield privet.audit(
        fitted,
        (ROWS[:20], LABELS[:20]),
        (ROWS[20:], LABELS[20:]),
        references=4,
        recipe=recipe,
        progress=False,
    )
    yield shadows.Halves()
    yield shadows.Sequential()


def _training():
    for kind in (training.Mislabelled(), training.DiracGradient()):
        given = training.Canaries(32, kind, seed=0)
        yield given
        yield training.train(
            model(), tensors(), epsilon=5.0, delta=1e-3, epochs=1, lot_size=20, canaries=given
        )
    net = model()
    private = training.make_private(
        net, torch.optim.SGD(net.parameters(), lr=0.1), tensors(),
        epsilon=5.0, delta=1e-3, clip=training.Flat(1.0), lot_size=20, epochs=1.0,
        checkpoint=Path(tempfile.mkdtemp()) / "run",
    )  # fmt: skip
    yield private
    yield next(private.lots())
    yield net
    yield training.fix(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)))
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield training.Distributed()
    yield training.MovingAverage()
    yield training.Denoising()
    yield training.Augmentation(training.crops_and_flips(1), copies=2)


def harvest():
    """Objects by their class: all that the runs gave, and what these hold."""
    found: dict[type, list[object]] = {}
    seen: dict[int, object] = {}

    def take(thing, depth):
        if id(thing) in seen or depth > 8 or isinstance(thing, (type, str, bytes, int, float)):
            return
        seen[id(thing)] = thing
        kind = type(thing)
        if kind.__module__.startswith("privet"):
            kept = found.setdefault(kind, [])
            if len(kept) < 5:
                kept.append(thing)
        inside = []
        if isinstance(thing, dict):
            inside = list(thing.values())[:20]
        elif isinstance(thing, (tuple, list, frozenset)):
            inside = list(thing)[:20]
        elif kind.__module__.startswith("privet"):
            names = (
                [field.name for field in dataclasses.fields(thing)] if dataclasses.is_dataclass(thing) else []
            )
            inside = [getattr(thing, name, None) for name in names] + list(
                getattr(thing, "__dict__", {}).values()
            )
        for one in inside:
            take(one, depth + 1)

    for run in (_accounting, _releasing, _mechanisms, _attacking, _training):
        for thing in run():
            take(thing, 0)
    return found
