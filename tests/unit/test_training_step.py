"""What a step refuses, what it writes down, and in which order."""

import json
import math

import pytest
import torch
from torch import nn

from privet.errors import InvalidArgument
from privet.randomness import SeededNoise
from privet.training import (
    Adaptive,
    CorrectedAdam,
    CrossExample,
    Flat,
    NotFinite,
    PoissonSampling,
    PrivateLoop,
    TrainingPlan,
)
from privet.training.loop.checkpoint import Checkpoint
from privet.training.loop.losses import require_labels
from privet.training.loop.step import NoisyGradient
from privet.training.per_example import ClippedSums, per_example_loss
from privet.training.sampling import examples as examples_module
from privet.training.sampling.examples import micro_batch_size
from privet.training.sampling.reading import as_examples

LOSS = nn.CrossEntropyLoss()


def plan(population=100, rate=0.2, steps=5, clip=None, noise=1.0):
    rule = clip.quantile_clip(rate * population, noise) if isinstance(clip, Adaptive) else None
    return TrainingPlan(
        population=population,
        sampling=PoissonSampling(rate),
        steps=steps,
        noise_multiplier=noise,
        clip_bound=1.0 if clip is None else clip.bound,
        adaptive=rule,
    )


def data(count=100, width=3):
    torch.manual_seed(0)
    return torch.randn(count, width), torch.randint(0, 2, (count,))


def loop(model=None, *, rows=None, wanted=None, clip=None, optimizer=None, **more):
    model = nn.Linear(3, 2) if model is None else model
    optimizer = (
        torch.optim.SGD(model.parameters(), 0.1) if optimizer is None else optimizer(model.parameters())
    )
    return PrivateLoop(
        model,
        optimizer,
        as_examples(data() if rows is None else rows),
        plan(clip=clip) if wanted is None else wanted,
        Flat(1.0) if clip is None else clip,
        noise=SeededNoise(1),
        **more,
    )


def test_gradients_that_are_not_finite_spend_nothing():
    inputs, targets = data()
    private = loop(rows=(inputs.clone().fill_(math.nan), targets), wanted=plan(rate=1.0))
    weights = [p.detach().clone() for p in private.model.parameters()]
    lot = next(private.lots())
    with pytest.raises(NotFinite):
        private.step(lot, LOSS)
    assert private.steps_done == 0
    assert len(private.ledger) == 0
    assert all(torch.equal(a, b) for a, b in zip(weights, private.model.parameters(), strict=True))
    assert next(private.lots()) is lot  # it waits for another try


def test_a_piece_that_is_not_finite_refuses_the_whole_lot():
    inputs, targets = data()
    inputs[99] = math.inf
    wanted = TrainingPlan(
        population=100,
        sampling=PoissonSampling(1.0),
        steps=2,
        noise_multiplier=1.0,
        clip_bound=1.0,
        micro_batch=30,
    )
    private = loop(rows=(inputs, targets), wanted=wanted)
    with pytest.raises(NotFinite):
        private.step(next(private.lots()), LOSS)
    assert private.steps_done == 0


class Probe(torch.optim.SGD):
    """Looks at what is written down when the noisy gradient is used."""

    def __init__(self, params):
        super().__init__(params, 0.1)
        self.look = lambda: None
        self.seen = []

    def step(self, closure=None):
        self.seen.append(self.look())
        return super().step(closure)


def test_the_journal_has_a_step_before_its_gradient_is_used(tmp_path):
    wanted = plan()
    with Checkpoint(tmp_path, wanted, ahead=1) as kept:
        private = loop(wanted=wanted, optimizer=Probe, checkpoint=kept)
        private.optimizer.look = lambda: json.loads((tmp_path / "spent.json").read_text())["reserved"]
        for lot in private.lots():
            private.step(lot, LOSS)
    assert private.optimizer.seen == [1, 2, 3, 4, 5]


def test_the_ledger_has_a_step_before_its_gradient_is_used():
    private = loop(optimizer=Probe)
    private.optimizer.look = lambda: private.ledger.event
    for lot in private.lots():
        private.step(lot, LOSS)
    assert private.optimizer.seen == [private.plan.ledger(n).event for n in range(1, private.plan.steps + 1)]


def test_a_step_counts_even_if_the_optimiser_fails():
    private = loop(optimizer=Probe)

    def fail():
        raise RuntimeError("broken")

    private.optimizer.look = fail
    with pytest.raises(RuntimeError, match="broken"):
        private.step(next(private.lots()), LOSS)
    assert private.steps_done == 1
    assert len(private.ledger) == 1


def test_empty_lots_step_on_noise_alone():
    wanted = plan(rate=1e-9, steps=3)
    private = loop(wanted=wanted)
    before = private.model.weight.detach().clone()
    for lot in private.lots():
        assert lot.indices.numel() == 0
        private.step(lot, LOSS)
    assert private.steps_done == 3
    assert not torch.equal(before, private.model.weight)


def test_the_bound_follows_the_quantile():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    model.requires_grad_(True)
    inputs, targets = data(400)
    clip = Adaptive(30.0, quantile=0.5, learning_rate=0.3, count_deviation=5.0)
    wanted = plan(400, 0.5, 60, clip)
    private = loop(
        model, rows=(inputs, targets), wanted=wanted, clip=clip, optimizer=lambda p: torch.optim.SGD(p, 1e-9)
    )
    for lot in private.lots():
        private.step(lot, LOSS)
    norms = []
    for x, y in zip(inputs, targets, strict=True):
        found = torch.autograd.grad(LOSS(model(x), y), list(model.parameters()))
        norms.append(math.hypot(*[float(g.norm()) for g in found]))
    share = sum(n <= private.clip.bound for n in norms) / len(norms)
    assert abs(share - 0.5) < 0.15
    assert private.plan.gradient_multiplier > private.plan.noise_multiplier


def test_adaptive_noise_follows_the_bound():
    clip = Adaptive(4.0, count_deviation=50.0)
    model = nn.Linear(300, 300)
    step = NoisyGradient(
        model, clip, divisor=10.0, multiplier=2.0, count_deviation=50.0, source=SeededNoise(2)
    )
    assert step.deviation == pytest.approx(2.0 * 4.0 / 10.0)
    step.release()
    assert float(step.buffer.std()) == pytest.approx(0.8, rel=0.02)
    assert step.clip.bound != 4.0
    assert step.deviation == pytest.approx(2.0 * step.clip.bound / 10.0)


def test_corrected_adam_is_told_the_noise():
    private = loop(optimizer=CorrectedAdam)
    private.step(next(private.lots()), LOSS)
    assert private.optimizer.noise_deviation == pytest.approx(1.0 * 1.0 / 20.0)


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (lambda outputs, targets: outputs.square(), 'reduction="none"'),
        (lambda outputs, targets: outputs.square().mean().sqrt(), "mean or a sum over examples"),
        ("cross entropy", "'loss' must be"),
        (nn.Linear(2, 2), "'loss' must be"),
    ],
)
def test_losses_that_are_not_one_for_each_example_are_refused(loss, says):
    private = loop(wanted=plan(rate=1.0))
    with pytest.raises(InvalidArgument, match=says):
        private.step(next(private.lots()), loss)
    assert private.steps_done == 0


def test_labels_out_of_range_are_refused_without_their_values():
    inputs, targets = data()
    private = loop(rows=(inputs, targets + 77), wanted=plan(rate=1.0))
    with pytest.raises(InvalidArgument, match="labels from 0 to 1") as refused:
        private.step(next(private.lots()), LOSS)
    assert "77" not in str(refused.value)
    assert private.steps_done == 0


def test_labels_in_models_that_need_brute_force():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3, 2))

        def forward(self, inputs):
            return torch.einsum("bi,ij->bj", inputs.cumsum(1), self.scale.cumsum(0).sin())

    private = loop(Odd(), wanted=plan(rate=1.0))
    private.step(next(private.lots()), LOSS)
    assert private.steps_done == 1


def test_labels_of_tokens():
    logits = torch.zeros(4, 5, 7)
    require_labels(torch.full((4, 5), 6), logits, -100)
    require_labels(torch.full((4, 5), -100), logits, -100)
    require_labels(torch.full((9, 5), 6), logits, -100)
    with pytest.raises(InvalidArgument, match="labels from 0 to 6"):
        require_labels(torch.full((4, 5), 7), logits, -100)
    with pytest.raises(InvalidArgument, match="labels from 0 to 6"):
        require_labels(torch.full((4, 5), 7), logits.transpose(1, 2), -100)


def test_batch_normalisation_points_to_the_fix():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    private = loop(model)
    with pytest.raises(CrossExample, match=r"privet\.training\.fix"):
        private.step(next(private.lots()), LOSS)


def test_frozen_batch_normalisation_that_trains_again_points_to_the_fix():
    norm = nn.BatchNorm1d(4).requires_grad_(False).eval()
    private = loop(nn.Sequential(nn.Linear(3, 4), norm, nn.Linear(4, 2)), wanted=plan(rate=1.0))
    lots = private.lots()
    private.step(next(lots), LOSS)
    private.model.train()
    with pytest.raises(CrossExample, match=r"privet\.training\.fix"):
        private.step(next(lots), LOSS)
    assert private.steps_done == 1


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_that_would_never_run_are_refused(kind):
    private = loop(wanted=plan(rate=1.0))
    lots = private.lots()
    private.step(next(lots), LOSS)
    handle = getattr(private.model.bias, kind)(lambda _: None)
    lot = next(lots)
    with pytest.raises(InvalidArgument, match="hooks on its parameters, got one on 'bias'"):
        private.step(lot, LOSS)
    assert private.steps_done == 1
    handle.remove()
    private.step(lot, LOSS)


def test_hooks_on_frozen_parameters_do_not_matter():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    model[0].weight.register_hook(lambda gradient: gradient)
    model[0].requires_grad_(False)
    private = loop(model, optimizer=lambda _: torch.optim.SGD(model[1].parameters(), 0.1))
    private.step(next(private.lots()), LOSS)


def test_evaluation_mode_is_refused():
    private = loop()
    private.model.eval()
    with pytest.raises(InvalidArgument, match="training mode"):
        private.step(next(private.lots()), LOSS)


def test_half_precision_models_are_refused():
    with pytest.raises(InvalidArgument, match=r"model\.float\(\)"):
        loop(nn.Linear(3, 2).half())


def test_optimisers_have_the_models_parameters():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    with pytest.raises(InvalidArgument, match="every trainable"):
        loop(model, optimizer=lambda _: torch.optim.SGD(model[1].parameters(), 0.1))
    with pytest.raises(InvalidArgument, match="of the model only"):
        loop(model, optimizer=lambda p: torch.optim.SGD([*p, nn.Parameter(torch.ones(1))], 0.1))
    model[0].requires_grad_(False)
    private = loop(model, optimizer=lambda _: torch.optim.SGD(model[1].parameters(), 0.1))
    frozen = model[0].weight.detach().clone()
    private.step(next(private.lots()), LOSS)
    assert torch.equal(frozen, model[0].weight)


def test_the_clip_must_be_the_plans():
    with pytest.raises(InvalidArgument, match="'clip' must be"):
        loop(wanted=plan(), clip=Flat(2.0))
    with pytest.raises(InvalidArgument, match="'clip' must be"):
        loop(wanted=plan(), clip=Adaptive(1.0))


def test_the_data_must_be_the_plans():
    with pytest.raises(InvalidArgument, match="100 examples"):
        loop(rows=data(99))


class TestPieces:
    """Lots are taken in pieces that the caches hold; what is summed does not depend on it."""

    @pytest.mark.parametrize("numbers_per_example", [None, 0, 1, 1000, 10**5, 10**7, 10**10])
    @pytest.mark.parametrize("count", [1, 31, 32, 33, 1000, 4096])
    def test_pieces_are_equal_and_cover_the_lot(self, numbers_per_example, count):
        size = micro_batch_size(count, numbers_per_example)
        assert 1 <= size <= count
        pieces = -(-count // size)
        assert pieces * size - count < pieces  # no piece is smaller than another by more than one each
        if numbers_per_example is not None:
            assert size == 1 or size * numbers_per_example <= max(
                1 << 22, min(32 * numbers_per_example, 1 << 27)
            )

    def test_the_engine_says_how_much_it_holds(self):
        """A chain: the inputs and outputs of its layers. Others: inputs and gradients of outputs; brute force: parameters too."""
        x, y = torch.randn(6, 5), torch.randint(0, 3, (6,))
        loss = per_example_loss(nn.CrossEntropyLoss())
        chain = ClippedSums(nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), loss, Flat(1.0))
        assert chain.numbers_per_example is None
        for _ in range(2):
            chain.add((x,), y, chain.layout.zeros())
            assert chain.numbers_per_example == 5 + 4 + 4 + 3

        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.scale = nn.Linear(5, 3), nn.Parameter(torch.ones(3, 3))

            def forward(self, x):
                return (1 + self.inner(x).abs()) ** self.scale.sum(0)

        odd = ClippedSums(Odd(), loss, Flat(1.0))
        odd.add((x,), y, odd.layout.zeros())
        assert odd.brute_forced
        assert odd.numbers_per_example == 5 + 3 + 9

    def test_a_lot_in_pieces_is_the_lot(self, monkeypatch):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3))
        data = as_examples((torch.randn(50, 4), torch.randint(0, 3, (50,))))
        sums = []
        for most in (32, 7, 1000):
            monkeypatch.setattr(examples_module, "_FEWEST", most)
            monkeypatch.setattr(examples_module, "_IN_CACHE", most)
            noisy = NoisyGradient(model, Flat(0.5), divisor=50, multiplier=0.0, source=SeededNoise(1))
            for _ in range(2):
                noisy.collect(data, torch.randperm(50), nn.CrossEntropyLoss())
            sums.append(noisy.buffer.clone())
        assert torch.allclose(sums[0], sums[1], atol=1e-5)
        assert torch.allclose(sums[0], sums[2], atol=1e-5)
