"""What would carry data past the noise, or past the ledger: stale gradients, side effects, copies, crashes."""

import copy
import math
import pickle
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne
from privet.errors import InvalidArgument, NotProved
from privet.events import Gaussian, Poisson, Repeat
from privet.ledger import Ledger
from privet.randomness import SeededNoise
from privet.training import (
    BandedNoise,
    CrossExample,
    CyclicPoissonSampling,
    CyclicSampling,
    FixedSizeSampling,
    Flat,
    NotFinite,
    PoissonSampling,
    Signs,
    Student,
    TrainingPlan,
    fix,
    make_private,
    train,
)

LOSS = nn.CrossEntropyLoss()


def enough(plan, target):
    return replace(plan, noise_multiplier=4.0)


@pytest.fixture(autouse=True)
def uncalibrated(monkeypatch):
    monkeypatch.setattr(TrainingPlan, "with_least_noise", enough)


def data(count=120):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 3, generator=generator), torch.randint(0, 2, (count,), generator=generator)


def private(model=None, rows=None, **more):
    model = nn.Linear(3, 2) if model is None else model
    settings = {"epsilon": 3.0, "delta": 1e-6, "clip": Flat(1.0), "steps": 6, "noise": SeededNoise(1)} | more
    if "sampling" not in settings:
        settings.setdefault("lot_size", 30)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return make_private(model, optimizer, data() if rows is None else rows, **settings)


# Gradients ------------------------------------------------------------------------------------------------------------


def test_a_refused_step_leaves_no_gradient_without_noise():
    """The last record is no number, so the pieces before it were already added up when the step is refused."""
    inputs, labels = data(100)
    inputs[-1] = math.nan
    run = private(rows=(inputs, labels), sampling=CyclicSampling(2), micro_batch=10)
    lots = run.lots()
    run.step(next(lots), LOSS)
    with pytest.raises(NotFinite):
        run.step(next(lots), LOSS)
    assert all(p.grad is None for p in run.model.parameters())


def test_a_loss_sees_no_gradient_of_the_step_it_is_in():
    run, seen = private(micro_batch=10), []

    def loss(outputs, targets):
        seen.append([p.grad for p in run.model.parameters()])
        return F.cross_entropy(outputs, targets, reduction="none")

    for lot in run.lots():
        run.step(lot, loss)
        assert all(p.grad is not None for p in run.model.parameters())
    assert all(gradient is None for gradients in seen for gradient in gradients)


def test_gradients_from_elsewhere_do_not_move_frozen_parameters():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    inputs, labels = data()
    LOSS(model(inputs), labels).backward()
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    run = private(model)
    for lot in run.lots():
        run.step(lot, LOSS)
        model[0].weight.grad = torch.ones(4, 3)
    assert torch.equal(model[0].weight, before)


def test_an_optimizer_that_asks_twice_is_refused_before_anything_is_spent():
    model = nn.Linear(3, 2)
    with pytest.raises(InvalidArgument, match="LBFGS"):
        make_private(
            model,
            torch.optim.LBFGS(model.parameters()),
            data(),
            epsilon=3.0,
            delta=1e-6,
            clip=Flat(1.0),
            steps=2,
            lot_size=30,
        )


def test_what_is_trained_stays_the_same():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[0].requires_grad_(False)
    run = private(model)
    model[0].requires_grad_(True)
    model[1].requires_grad_(False)
    with pytest.raises(InvalidArgument, match="frozen"):
        run.step(next(run.lots()), LOSS)
    assert run.steps_done == 0


# Side effects of the forward pass -------------------------------------------------------------------------------------


class Centred(nn.Module):
    """Keeps a running mean of its inputs, as quantisers, codebooks and home-made normalisations do."""

    def __init__(self, write, *, persistent=True):
        super().__init__()
        self.layer, self.write = nn.Linear(3, 2), write
        self.register_buffer("mean", torch.zeros(3), persistent=persistent)

    def forward(self, x):
        if self.training:
            self.write(self, x.detach().mean(0))
        return self.layer(x)


def in_place(module, value):
    module.mean.lerp_(value, 0.1)


def behind_the_scenes(module, value):
    module.mean.data.lerp_(value, 0.1)


def anew(module, value):
    module.mean = module.mean.lerp(value, 0.1)


@pytest.mark.parametrize("write", [in_place, behind_the_scenes, anew])
def test_statistics_of_the_data_are_refused(write):
    run = private(Centred(write))
    with pytest.raises(InvalidArgument, match="'mean'"):
        run.step(next(run.lots()), LOSS)
    assert run.steps_done == 0
    assert not run.model.mean.any()


def test_a_refused_step_leaves_no_statistics():
    run = private(Centred(in_place))
    lots = run.lots()

    def loss(outputs, targets):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run.step(next(lots), loss)
    assert not run.model.mean.any()


def test_statistics_that_begin_later_are_refused():
    model = Centred(lambda module, value: None)
    run = private(model)
    lots = run.lots()
    run.step(next(lots), LOSS)
    model.write = in_place
    with pytest.raises(InvalidArgument, match="'mean'"):
        run.step(next(lots), LOSS)
    assert run.steps_done == 1


def test_scratch_space_is_allowed():
    run = private(Centred(in_place, persistent=False))
    for lot in run.lots():
        run.step(lot, LOSS)
    assert run.steps_done == 6


def test_weights_that_the_forward_pass_changes_are_refused():
    class Bounded(nn.Linear):
        def forward(self, x):
            with torch.no_grad():
                self.weight.clamp_(-x.abs().max(), x.abs().max())
            return super().forward(x)

    run = private(Bounded(3, 2))
    with pytest.raises(InvalidArgument, match="'weight'"):
        run.step(next(run.lots()), LOSS)
    assert run.steps_done == 0


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_embeddings_that_show_whom_they_were_asked_for_are_refused(kind):
    """With max_norm the rows that a lot looks up are shortened, and no others."""
    layer = kind(7, 3, max_norm=0.5)
    model = nn.Sequential(layer, nn.Flatten(), nn.LazyLinear(2))
    tokens = torch.randint(0, 3, (120, 4))
    model(tokens)
    before = layer.weight.detach().clone()
    with pytest.raises(InvalidArgument, match="max_norm"):
        private(model, (tokens, data()[1]))
    assert torch.equal(layer.weight, before)
    fixed = fix(model).model
    assert fixed[0].max_norm is None
    private(fixed, (tokens, data()[1]))


def test_power_iterations_on_weights_are_allowed():
    model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)), nn.Linear(4, 2))
    run = private(model)
    for lot in run.lots():
        run.step(lot, LOSS)
    assert run.steps_done == 6


def test_batch_normalisation_stays_frozen_where_gradients_are_encoded():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model[1].eval()
    run = private(model, encoding=Signs())
    lots = run.lots()
    run.step(next(lots), LOSS)
    model.train()
    with pytest.raises(CrossExample):
        run.step(next(lots), LOSS)
    assert run.steps_done == 1


# Copies ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda run: pickle.loads(pickle.dumps(run))])
def test_a_run_is_not_copied(copied):
    """Two copies would use one lot twice, and each would know of its own steps only."""
    run = private()
    next(run.lots())
    with pytest.raises(InvalidArgument, match="checkpoint"):
        copied(run)


# Crashes --------------------------------------------------------------------------------------------------------------

BANDS = (1.0, 0.9, 0.9, 0.9)
NORM = math.hypot(*BANDS)


def epsilon(ledger):
    return account(ledger).epsilon(delta=1e-5)


@pytest.mark.parametrize("crashes", [1, 2])
def test_noise_that_lost_and_new_steps_share_is_counted_with_their_one_draw(crashes):
    """Part 0 is drawn once, in step 1, and its noise of steps 2 to 4 is drawn anew after every crash.

    So its one draw, at the rate q, is seen behind rows of the squared length c₀² + (1 + crashes)(c₁² + c₂² + c₃²).
    """
    plan = TrainingPlan(
        population=1000,
        sampling=CyclicPoissonSampling(4, 0.02),
        steps=4,
        noise_multiplier=0.7 * NORM,
        clip_bound=1.0,
        correlation=BandedNoise(BANDS),
    )
    seen = math.sqrt(1 + (1 + crashes) * (NORM**2 - 1))
    truth = Ledger(AddRemove()).spend("all rows", Poisson(0.02, Gaussian(plan.noise_multiplier / seen)))
    assert epsilon(plan.ledger(4, abandoned=((1, 4),) * crashes)) >= epsilon(truth)


def test_lost_steps_of_parts_count_by_their_turns():
    plan = TrainingPlan(
        population=1000,
        sampling=CyclicPoissonSampling(4, 0.1),
        steps=400,
        noise_multiplier=2.0,
        clip_bound=1.0,
    )
    (all_turns,) = plan.ledger(400, abandoned=((360, 369),))
    assert all_turns.event == Repeat(Poisson(0.1, Gaussian(2.0)), 103)
    bands = replace(plan, correlation=BandedNoise(BANDS))
    (fresh,) = bands.ledger(400, abandoned=((0, 9),))
    assert fresh.event == Repeat(Poisson(0.1, Gaussian(2.0 / NORM)), 103)


def test_the_bar_shows_what_was_lost(tmp_path, monkeypatch):
    shown = []

    class Noted:
        def __init__(self, steps, spent, stream=None):
            self.spent = spent

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def begin(self, step):
            pass

        def show(self, step):
            shown.append(self.spent(step))

    monkeypatch.setattr("privet.training.loop.run.TrainingProgress", Noted)
    monkeypatch.setattr("privet.training.loop.run._BETWEEN_SAVES", 0.0)
    settings = {"epsilon": 3.0, "delta": 1e-5, "epochs": 5, "lot_size": 30, "checkpoint": tmp_path}

    def fails(model):
        raise OSError

    with pytest.raises(OSError):
        train(nn.Linear(3, 2), data(), watch=fails, **settings)
    shown.clear()
    trained = train(
        nn.Linear(3, 2), data(), **settings
    )  # with more noise than ε asks for, which pays for the lost step
    assert trained.steps_cut == 0
    assert trained.ledger.entries[0].label == "private training, 20 steps, and 1 that a crash lost"
    assert shown[-1] == pytest.approx(trained.epsilon(delta=1e-5))


def test_a_seeded_run_that_goes_on_does_not_repeat_its_noise(tmp_path):
    """Without inputs there is no gradient but noise. Used twice, a difference of two steps would have none."""
    seen = []
    for last in (3, 6, 6):
        model = nn.Linear(3, 2, bias=False)
        rows = torch.zeros(120, 3), data()[1]
        with private(model, rows, checkpoint=tmp_path) as run:
            for lot in run.lots():
                run.step(lot, LOSS)
                seen.append(model.weight.grad.clone())
                if run.steps_done == last:
                    break
    assert len(seen) == 6
    assert not any(torch.equal(a, b) for i, a in enumerate(seen) for b in seen[:i])


# Laws -----------------------------------------------------------------------------------------------------------------


def test_student_noise_is_proved_pair_by_pair_only():
    """A Poisson sample under replace-one mixes three laws, and each pair of them being dominated is not enough."""
    plan = TrainingPlan(
        population=1000,
        sampling=FixedSizeSampling(100),
        steps=5,
        noise_multiplier=1.0,
        clip_bound=1.0,
        adjacency=ReplaceOne(),
        noise_distribution=Student(3.0),
    )
    with pytest.raises(NotProved, match="replace-one"):
        replace(plan, sampling=PoissonSampling(0.1))
    with pytest.raises(NotProved, match="replace-one"):
        replace(plan, sampling=CyclicPoissonSampling(2, 0.1))
    replace(plan, sampling=PoissonSampling(1.0))
    replace(plan, sampling=PoissonSampling(0.1), adjacency=AddRemove())


# Data -----------------------------------------------------------------------------------------------------------------


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield from zip(*data(), strict=True)


def test_data_that_cannot_be_drawn_from_is_refused():
    with pytest.raises(InvalidArgument, match="any position"):
        private(rows=Endless())
