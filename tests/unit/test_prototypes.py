"""Class prototypes: searches on models that are known, judges, and refusals."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from privet.attacks import Probabilities, see
from privet.attacks.inversion import (
    ConfidencePrototype,
    GradientPrototype,
    JudgePanel,
    PCAPrior,
    PixelPrior,
    PrototypeGame,
    score_pictures,
)
from privet.attacks.inversion.prototypes.pictures import correlate_pictures, denoise, smoothness_gradient
from privet.auditing import measure_recoveries
from privet.errors import InvalidArgument
from privet.exhibits import Picture

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def digits():
    """Digits 0 to 4 are the private classes, 5 to 9 are other people's."""
    data = load_digits()
    pictures, labels = data.images / 16.0, data.target
    order = np.random.default_rng(0).permutation(len(labels))
    return pictures[order], labels[order]


def _model(shape, classes, seed=0):
    model = torch.nn.Sequential(
        torch.nn.Flatten(),
        torch.nn.Linear(int(np.prod(shape)), 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, classes),
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return model


@pytest.fixture(scope="module")
def trained(digits):
    pictures, labels = digits
    mine = np.flatnonzero(labels < 5)[:400]
    model = _model((8, 8), 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    inputs, targets = torch.tensor(pictures[mine], dtype=torch.float32), torch.tensor(labels[mine])
    for _ in range(80):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    return model


@pytest.fixture(scope="module")
def game(digits):
    pictures, labels = digits
    others = np.r_[np.flatnonzero(labels < 5)[400:], np.flatnonzero(labels >= 5)]
    panel = JudgePanel.learn(pictures[others], labels[others])
    truths = np.stack([pictures[np.flatnonzero(labels == number)[0]] for number in range(5)])
    return PrototypeGame(np.arange(5), panel, pictures[labels >= 5], truths)


def test_a_trained_model_shows_its_classes_and_an_untrained_one_does_not(trained, game, digits):
    attack = GradientPrototype(
        PixelPrior.mean(game.public), denoising=0.01
    )  # of 8 × 8 pixels little may be lost
    shown, control = game.play(attack, see(trained)), game.play(attack, see(_model((8, 8), 5, seed=1)))
    assert min(shown.by_judge.values()) >= 0.6
    assert max(control.by_judge.values()) <= 0.4
    assert shown.recoveries.hits.sum() >= 2
    assert not shown.recoveries.blind_hits.any()
    assert measure_recoveries(shown.recoveries, confidence=0.95).success.value >= 0.4
    assert all(isinstance(exhibit.recovered, Picture) for exhibit in shown.recoveries.exhibits)


def test_confidences_alone_are_enough(trained, game):
    prior = PCAPrior.learn(game.public, 20)
    told = see(trained).log_confidences(ConfidencePrototype(prior).run(see(trained), np.arange(5)))
    assert np.exp(told[np.arange(5), np.arange(5)]).min() > 0.9
    narrow = Probabilities(see(trained).confidences)
    with pytest.raises(InvalidArgument, match="WhiteBox"):
        GradientPrototype(prior).run(narrow, np.arange(5))


def test_classes_are_searched_one_by_one(trained, game):
    """A class has the same prototype alone and among others."""
    attack = GradientPrototype(PixelPrior.mean(game.public), steps=20)
    together = attack.run(see(trained), np.arange(5))
    alone = attack.run(see(trained), np.array([3]))
    np.testing.assert_allclose(together[3], alone[0], atol=1e-5)


def test_the_input_gradient_is_that_of_finite_differences(trained, digits):
    view, row = see(trained), digits[0][:1]
    _, gradient = view.input_gradients(row, np.array([2]))
    step = np.zeros_like(row)
    step[0, 3, 4] = 1e-2
    up, down = (view.input_gradients(row + sign * step, np.array([2]))[0][0] for sign in (1, -1))
    assert gradient[0, 3, 4] == pytest.approx((up - down) / 2e-2, rel=0.02)


def test_priors_pull_back_what_they_push_forward(digits):
    """⟨picture gradient, change of the picture⟩ = ⟨latent gradient, change of the latents⟩."""
    from privet.attacks.inversion.prototypes.vae_prior import VAEPrior

    generator = np.random.default_rng(1)
    public = digits[0][:100]
    for prior in (
        PCAPrior.learn(public, 5),
        VAEPrior.learn(public, 4, width=16, steps=20),
        PixelPrior.mean(public),
    ):
        latents = prior.start(2) + (0.05 * generator.normal(size=prior.start(2).shape))
        latents = prior.keep_inside(latents)
        slope, step = generator.normal(size=(2, 8, 8)), 1e-3 * generator.normal(size=latents.shape)
        change = prior.pictures(latents + step) - prior.pictures(latents - step)
        inside = (prior.pictures(latents) > 0.01) & (prior.pictures(latents) < 0.99)  # not clipped
        pulled = prior.pull_back(latents, slope * inside)
        assert (slope * inside * change).sum() == pytest.approx(2 * (pulled * step).sum(), rel=0.1, abs=1e-4)


def test_torch_keeps_its_random_state(digits):
    from privet.attacks.inversion.prototypes.vae_prior import VAEPrior

    before = torch.get_rng_state()
    first, second = (VAEPrior.learn(digits[0][:50], 3, width=8, steps=5) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(first.pictures(np.ones((1, 3))), second.pictures(np.ones((1, 3))))


def test_a_prototype_that_is_a_training_picture_tells_about_pictures(digits):
    """Prototypes are the trained picture of each class, or its mean: scores tell the picture only in the first case."""
    pictures, labels = digits
    first = np.array([np.flatnonzero(labels == number)[0] for number in range(5)])
    second = np.array([np.flatnonzero(labels == number)[1] for number in range(5)])
    own = score_pictures(pictures[first], pictures[np.r_[first, second]], np.tile(np.arange(5), 2))
    assert own[:5].min() > own[5:].max()
    means = np.stack([pictures[labels == number].mean(axis=0) for number in range(5)])
    fair = score_pictures(means, pictures[labels < 5], labels[labels < 5])
    assert fair.std() > 0


def test_pictures():
    generator = np.random.default_rng(2)
    noisy = generator.random((2, 9, 9))
    assert np.abs(np.diff(denoise(noisy, 1.0))).sum() < np.abs(np.diff(noisy)).sum()
    assert denoise(noisy, 0.0) is noisy
    np.testing.assert_allclose(np.diag(correlate_pictures(noisy, 0.3 * noisy + 0.1)), 1.0)
    step = np.zeros_like(noisy)
    step[1, 4, 0] = 1e-6

    def variation(pictures):
        return sum(np.sqrt(np.diff(pictures, axis=axis) ** 2 + 0.01**2).sum() for axis in (-2, -1))

    slope = (variation(noisy + step) - variation(noisy - step)) / 2e-6
    assert smoothness_gradient(noisy)[1, 4, 0] == pytest.approx(slope, rel=1e-5)


class Detached(torch.nn.Module):
    def forward(self, rows):
        return torch.stack([rows.detach().flatten(1).sum(1), rows.detach().flatten(1).mean(1)], dim=1)


class TestRefusals:
    def test_a_model_without_gradients(self, game):
        with pytest.raises(InvalidArgument, match="differentiable in its input"):
            GradientPrototype(PixelPrior.mean(game.public)).run(see(Detached()), np.arange(2))

    def test_a_model_of_indices(self):
        model = torch.nn.Sequential(torch.nn.Embedding(4, 2), torch.nn.Flatten(), torch.nn.Linear(4, 2))
        with pytest.raises(InvalidArgument, match="indices"):
            see(model).input_gradients(np.zeros((1, 2), dtype=int), np.array([0]))

    def test_classes_that_the_model_does_not_have(self, trained, game):
        with pytest.raises(InvalidArgument, match="below the model's 5 classes"):
            GradientPrototype(PixelPrior.mean(game.public)).run(see(trained), np.array([7]))

    @pytest.mark.parametrize(
        "pictures",
        [np.ones((3, 4)), np.full((2, 3, 3), 255.0), np.full((2, 3, 3), np.nan), np.array([["a"]])],
    )
    def test_what_is_no_picture(self, pictures):
        with pytest.raises(InvalidArgument, match="'public' must"):
            PixelPrior.mean(pictures)

    def test_a_panel_of_two_people(self):
        with pytest.raises(InvalidArgument, match="at least three persons"):
            JudgePanel.learn(np.ones((4, 2, 2)), np.array([0, 0, 1, 1]))

    def test_truths_of_another_shape(self, game):
        with pytest.raises(InvalidArgument, match="'truths' must be one picture"):
            PrototypeGame(np.arange(5), game.panel, game.public, game.truths[:4])
        with pytest.raises(InvalidArgument, match="'blind' must be one picture"):
            PrototypeGame(np.arange(5), game.panel, game.public, game.truths, game.truths[:1])

    def test_a_prior_of_another_shape(self, game, trained):
        with pytest.raises(InvalidArgument, match="shape"):
            game.play(ConfidencePrototype(PixelPrior.grey((4, 16)), steps=1, directions=1), see(trained))
