"""Every engine trains the same models: a law, since engines differ in time and never in the answer."""

import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from privet.attacks.shadows import (
    SGD,
    Adam,
    AdamW,
    CallableRecipe,
    Coins,
    Constant,
    Cosine,
    Halves,
    Processes,
    Ray,
    ScikitRecipe,
    Sequential,
    Stacked,
    StepSchedule,
    TorchRecipe,
    conduct,
)
from privet.attacks.shadows.orders import Order
from privet.attacks.shadows.stacked_mlp import chain_layers
from privet.attacks.shadows.stacking import train_stack
from privet.attacks.shadows.torch_recipe import initialize_model, to_tensor, train_model
from privet.errors import InvalidArgument
from privet.scores import Records

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.normal(size=(60, 1, 6, 6)).astype(np.float32)
LABELS = RANDOM.integers(0, 4, 60)
RECORDS = Records(IMAGES, LABELS)


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 12), nn.Tanh(), nn.Dropout(0.3),
        nn.Sequential(nn.Linear(12, 8), nn.GELU(), nn.Linear(8, 8, bias=False), nn.Sigmoid(), nn.ReLU()),
        nn.Identity(), nn.Linear(8, 4),
    )  # fmt: skip


def cnn():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4))


def batch_norm_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4)
    )


def noisy(batch, generator):
    return batch + 0.1 * torch.randn(batch.shape, generator=generator)


def largest_difference(recipe, members, inputs=IMAGES):
    seeds = [11 + 7 * k for k in range(len(members))]
    made = [initialize_model(recipe, seed) for seed in seeds]
    rows, labels = to_tensor(made[0].module, inputs), torch.as_tensor(LABELS)
    before = torch.random.get_rng_state()
    train_stack(recipe, made, rows, labels, members, seeds)
    worst = 0.0
    for stacked, mine, seed in zip(made, members, seeds, strict=True):
        alone = initialize_model(recipe, seed)
        start = [p.detach().clone() for p in alone.module.parameters()]
        train_model(recipe, alone, rows, labels, mine, seed)
        moved = max(
            float((p.detach() - q).abs().max()) for p, q in zip(alone.module.parameters(), start, strict=True)
        )
        assert moved > 1e-2
        theirs = alone.module.state_dict()
        for name, value in stacked.module.state_dict().items():
            worst = max(worst, float((value - theirs[name]).abs().max()))
    assert torch.equal(before, torch.random.get_rng_state())
    return worst


def halves(*sizes):
    return [np.sort(RANDOM.permutation(60)[:size]) for size in sizes]


@pytest.mark.parametrize(
    "descent",
    [
        SGD(momentum=0.0),
        SGD(),
        SGD(weight_decay=0.01),
        SGD(weight_decay=0.01, nesterov=True),
        Adam(weight_decay=0.01),
        AdamW(weight_decay=0.1),
    ],
    ids=str,
)
@pytest.mark.parametrize("schedule", [Constant(), Cosine(), StepSchedule()], ids=str)
def test_a_stacked_chain_is_the_model_by_itself(descent, schedule):
    rate = 0.05 if isinstance(descent, SGD) else 0.01
    recipe = TorchRecipe(
        model=mlp, epochs=3, batch_size=8, learning_rate=rate, optimizer=descent, schedule=schedule
    )
    # 30 = 3·8 + 6, 25 = 3·8 + 1 (left out), 24 = 3·8, 5 < 8
    assert largest_difference(recipe, halves(30, 25, 24, 5)) < 2e-5


@pytest.mark.parametrize("descent", [SGD(weight_decay=0.01), AdamW()], ids=str)
def test_any_other_module_is_stacked_by_torch_func(descent):
    recipe = TorchRecipe(
        model=cnn, epochs=2, batch_size=8, learning_rate=0.02, optimizer=descent, schedule=Cosine()
    )
    assert largest_difference(recipe, halves(30, 21, 30)) < 2e-5


def test_running_statistics_are_each_model_s_own():
    recipe = TorchRecipe(model=batch_norm_cnn, epochs=2, batch_size=8, learning_rate=0.05)
    members = halves(30, 30, 30)
    assert largest_difference(recipe, members) < 2e-5


def test_augmentation_is_each_model_s_own():
    for model in (mlp, cnn):
        recipe = TorchRecipe(model=model, epochs=2, batch_size=8, learning_rate=0.05, augmentation=noisy)
        plain = TorchRecipe(model=model, epochs=2, batch_size=8, learning_rate=0.05)
        assert largest_difference(recipe, halves(30, 21)) < 2e-5
        one, other = initialize_model(recipe, 3), initialize_model(plain, 3)
        rows, labels = to_tensor(one.module, IMAGES), torch.as_tensor(LABELS)
        train_model(recipe, one, rows, labels, np.arange(30), 3)
        train_model(plain, other, rows, labels, np.arange(30), 3)
        first, second = (next(iter(m.module.parameters())) for m in (one, other))
        assert not torch.allclose(first, second)


def test_what_is_a_chain_and_what_is_none():
    flat, image = (36,), (1, 6, 6)
    shared = nn.Linear(4, 4)
    frozen = nn.Sequential(nn.Linear(4, 4))
    frozen[0].bias.requires_grad_(False)
    hooked = nn.Linear(4, 4)
    hooked.register_forward_hook(lambda *_: None)
    assert isinstance(chain_layers(mlp(), image), list)
    for module, shape, reason in [
        (cnn(), image, "Conv2d"),
        (nn.Sequential(nn.Linear(6, 4)), image, "several axes"),
        (nn.Sequential(nn.Flatten(2), nn.Linear(6, 4)), image, "Flatten"),
        (nn.Sequential(shared, shared), flat, "share"),
        (frozen, flat, "frozen"),
        (nn.Sequential(hooked), flat, "hooks"),
        (nn.Sequential(nn.ReLU()), flat, "no Linear"),
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(1.0)), flat, "everything"),
    ]:
        found = chain_layers(module, shape)
        assert isinstance(found, str)
        assert reason in found


def test_order_shows_every_member_once_an_epoch():
    order = Order(np.arange(100, 130), epochs=3, batch_size=8, seed=1)
    assert order.steps == 12
    epochs = [np.concatenate([order.batch(t) for t in range(e * 4, e * 4 + 4)]) for e in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(100, 130))
    assert not np.array_equal(epochs[0], epochs[1])
    assert Order(np.arange(25), epochs=2, batch_size=8, seed=1).steps == 6
    assert Order(np.arange(3), epochs=2, batch_size=1, seed=1).steps == 6
    assert Order(np.arange(1), epochs=2, batch_size=8, seed=1).steps == 2


@pytest.mark.parametrize("model", [mlp, cnn, batch_norm_cnn])
@pytest.mark.parametrize("threads", [1, 2])
def test_engines_give_the_same_answers(model, threads):
    recipe = TorchRecipe(model=model, epochs=2, batch_size=8, learning_rate=0.05)
    mirror = (lambda rows: rows, lambda rows: rows[..., ::-1])
    found = [
        conduct(recipe, RECORDS, 6, seed=1, engine=engine, queries=mirror, keep_confidences=True)
        for engine in (Sequential(), Stacked(tile=4, threads=threads))
    ]
    one, other = (study.references for study in found)
    assert found[1].choice.engine == Stacked(tile=4, threads=threads)
    assert one.signals.shape == (6, 2, 60)
    assert np.abs(one.signals[:, 0] - one.signals[:, 1]).max() > 0.01
    np.testing.assert_allclose(one.signals, other.signals, atol=1e-4)
    np.testing.assert_allclose(one.softened, other.softened, atol=1e-4)
    np.testing.assert_allclose(one.log_confidences, other.log_confidences, atol=1e-4)
    assert np.array_equal(one.members, other.members)
    assert torch.get_num_threads() >= 1


def test_processes_give_the_same_answers():
    width = 9  # a closure: the recipe goes to the workers whole
    recipe = TorchRecipe(
        model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, width), nn.Linear(width, 4)), epochs=1
    )
    one = conduct(recipe, RECORDS, 3, seed=1, engine=Sequential())
    other = conduct(recipe, RECORDS, 3, seed=1, engine=Processes(2))
    assert other.choice.engine == Processes(2)
    np.testing.assert_allclose(one.references.softened, other.references.softened, atol=1e-4)
    np.testing.assert_allclose(one.references.signals, other.references.signals, atol=1e-4)


def test_a_worker_that_dies_is_replaced_by_the_plain_loop(tmp_path):
    import os

    def train(inputs, labels, seed):
        if os.environ.get("PYTHONPATH") != here:  # only in a worker
            os._exit(3)
        from privet.attacks import Probabilities

        return Probabilities(lambda rows: np.full((len(rows), 4), 0.25))

    here = os.environ.get("PYTHONPATH")
    found = conduct(CallableRecipe(train), RECORDS, 2, seed=0, engine=Processes(1))
    assert found.choice.engine == Sequential()
    assert "worker process" in found.choice.reason
    assert found.references.models == 2


def test_what_cannot_be_pickled_falls_back_and_says_so():
    lock = __import__("threading").Lock()

    def train(inputs, labels, seed):
        assert lock is not None
        from privet.attacks import Probabilities

        return Probabilities(lambda rows: np.full((len(rows), 4), 0.25))

    found = conduct(CallableRecipe(train), RECORDS, 2, seed=0, engine=Processes(2))
    assert found.choice.engine == Sequential()
    assert "cannot be pickled" in str(found)


def test_dropout_beside_a_convolution_is_not_stacked():
    recipe = TorchRecipe(model=lambda: nn.Sequential(cnn(), nn.Dropout(0.5)), epochs=1, batch_size=8)
    found = conduct(recipe, RECORDS, 2, seed=0, engine=Stacked())
    assert found.choice.engine == Sequential()
    assert "dropout" in found.choice.reason


def test_batch_statistics_with_unequal_batches_are_not_stacked():
    recipe = TorchRecipe(model=batch_norm_cnn, epochs=1, batch_size=8)
    found = conduct(recipe, RECORDS, 3, seed=0, engine=Stacked(), split=Coins(0.4))
    assert found.choice.engine == Sequential()
    assert "batch statistics" in found.choice.reason


class DrawsInForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(36, 4)

    def forward(self, x):
        return self.inner(x.flatten(1)) + torch.rand(4)


def test_randomness_that_nobody_declared_is_found_by_trying():
    found = conduct(
        TorchRecipe(model=DrawsInForward, epochs=1, batch_size=8), RECORDS, 2, seed=0, engine=Stacked()
    )
    assert found.choice.engine == Sequential()
    assert "torch.func does not take it" in found.choice.reason


def test_ray_is_used_where_a_cluster_is_there(monkeypatch):
    recipe = TorchRecipe(model=mlp, epochs=1, batch_size=8)
    without = conduct(recipe, RECORDS, 2, seed=0, engine=Ray())
    assert without.choice.engine == Sequential()
    assert "no Ray cluster" in without.choice.reason
    tasks = []

    class Task:
        def __init__(self, function):
            self.function = function

        def remote(self, *arguments):
            tasks.append(arguments[1])
            return lambda: self.function(*arguments)

    fake = types.SimpleNamespace(
        is_initialized=lambda: True,
        cluster_resources=lambda: {"CPU": 4096.0},
        remote=Task,
        put=lambda thing: thing,
        wait=lambda left, num_returns: (left[-1:], left[:-1]),
        get=lambda done: [one() for one in done],
        cancel=lambda _: None,
    )
    monkeypatch.setitem(sys.modules, "ray", fake)
    found = conduct(recipe, RECORDS, 2, seed=0)
    assert found.choice.engine == Ray()
    assert "4096 cores" in found.choice.reason
    assert tasks == [0, 1]
    np.testing.assert_allclose(found.references.signals, without.references.signals, atol=1e-5)


def test_the_choice_is_measured_and_shown():
    recipe = TorchRecipe(model=mlp, epochs=2, batch_size=8)
    found = conduct(recipe, RECORDS, 8, seed=0)
    names = [estimate.engine.name for estimate in found.choice.estimates]
    assert names[0] == "sequential"
    assert "stacked" in names[1]
    assert "processes" in names[2]
    able = {e.engine: e.seconds for e in found.choice.estimates}
    assert able[found.choice.engine] == min(able[e] for e in able if not isinstance(e, Processes))
    assert found.choice.engine.name in str(found)
    assert "measured" in str(found)


def test_memory_is_bounded():
    recipe = TorchRecipe(model=mlp, epochs=1, batch_size=8)
    small = Stacked(tile=16, memory=1, threads=1)
    inputs = to_tensor(mlp(), IMAGES)
    assert small._layout(recipe, inputs, 16) == (1, 1)
    assert Stacked(tile=16, threads=1)._layout(recipe, inputs, 16)[0] > 1


def test_splits():
    halves_ = Halves().members(7, 61, seed=3)
    assert halves_[:6].sum(axis=0).tolist() == [3] * 61
    assert halves_[:6].sum(axis=1).tolist() == [30, 31, 30, 31, 30, 31]
    assert np.array_equal(Halves().members(4, 61, seed=3), halves_[:4])  # a study can grow
    assert not np.array_equal(Halves().members(4, 61, seed=4), halves_[:4])
    coins = Coins(0.25).members(40, 500, seed=1)
    assert abs(coins.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 20000)
    assert np.array_equal(Coins(0.25).members(4, 500, seed=1), coins[:4])


def test_estimators_have_every_class_and_their_own_seed():
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    flat = Records(IMAGES.reshape(60, -1), np.r_[np.zeros(59, int), 3])
    recipe = ScikitRecipe(make_pipeline(StandardScaler(), RandomForestClassifier(3)))
    found = conduct(recipe, flat, 4, seed=0, keep_confidences=True)
    assert found.references.log_confidences.shape == (4, 60, 4)
    assert np.isfinite(found.references.signals).all()
    again = conduct(recipe, flat, 4, seed=0)
    assert np.array_equal(found.references.signals, again.references.signals)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"models": 0}, "models"),
        ({"seed": -1}, "seed"),
        ({"queries": ()}, "queries"),
        ({"queries": (lambda rows: rows[:3],)}, "one row for each record"),
        ({"split": Coins(1e-9)}, "Give more records"),
    ],
)
def test_refusals(arguments, words):
    recipe = TorchRecipe(model=mlp, epochs=1)
    with pytest.raises(InvalidArgument, match=words):
        conduct(recipe, RECORDS, **({"models": 2, "seed": 0} | arguments))


def test_refusals_of_recipes():
    with pytest.raises(InvalidArgument, match="function that makes a module"):
        TorchRecipe(model=mlp())
    with pytest.raises(InvalidArgument, match="momentum"):
        SGD(momentum=1.0)
    with pytest.raises(InvalidArgument, match="nesterov"):
        SGD(momentum=0.0, nesterov=True)
    with pytest.raises(InvalidArgument, match="betas"):
        Adam(betas=(0.9, 1.0))
    with pytest.raises(InvalidArgument, match="increase"):
        StepSchedule((0.7, 0.5))
    with pytest.raises(InvalidArgument, match="must make a torch module"):
        conduct(TorchRecipe(model=lambda: 3), RECORDS, 2, seed=0, engine=Sequential())
    with pytest.raises(InvalidArgument, match="only labels"):
        from sklearn.svm import LinearSVC

        conduct(ScikitRecipe(LinearSVC()), Records(IMAGES.reshape(60, -1), LABELS), 2, seed=0)
    with pytest.raises(InvalidArgument, match="'labels' must be given"):
        conduct(TorchRecipe(model=mlp), Records(IMAGES), 2, seed=0)


@pytest.mark.parametrize("split", [Halves(), Coins()])
@pytest.mark.parametrize("seed", [0, 7, 42])
def test_references_do_not_share_the_coins_of_a_target_with_the_same_seed(split, seed):
    n = 1000
    bits = split.members(4, n, seed)
    own = np.zeros(n, dtype=bool)
    own[np.random.default_rng(seed).permutation(n)[: n // 2]] = True
    tossed = np.random.default_rng(seed).random(n) < 0.5
    for target in (own, tossed):
        agreement = (bits == target).mean(axis=1)
        assert np.all(
            np.abs(agreement - 0.5) < 6 * 0.5 / n**0.5
        )  # six standard deviations: 1 in 10⁷ for all of these


def test_cores_are_counted_where_the_system_does_not_say_which_are_usable(monkeypatch):
    """macOS has no os.sched_getaffinity."""
    from privet.attacks.shadows.cores import usable_cores

    assert 1 <= usable_cores() <= (__import__("os").cpu_count() or 1)
    monkeypatch.setattr("privet.attacks.shadows.cores._QUOTA", __import__("pathlib").Path("/none"))
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    assert (usable_cores(), Processes().count) == (6, 6)
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert usable_cores() == 1


def test_no_module_asks_for_what_macos_lacks():
    """A law: system calls of Linux alone are asked for in one place each, behind a check that they are there."""
    from pathlib import Path

    import privet

    sources = Path(privet.__file__).parent.rglob("*.py")
    askers = [path.name for path in sources if "sched_getaffinity" in path.read_text(encoding="utf-8")]
    assert askers == ["cores.py"]
