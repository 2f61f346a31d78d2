"""Gradient inversion: what each attack recovers exactly, what it refuses, and how it is judged."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="gradients come from torch")

from torch import nn  # noqa: E402

from privet.attacks.inversion.gradients import (  # noqa: E402
    CandidateTest,
    DeepLeakage,
    ExpectedSignal,
    FirstLayer,
    Imprint,
    ImprintModel,
    InvertingGradients,
    MixedColumns,
    PublicModel,
    RankOne,
    SpanCheck,
    TabularInversion,
    align_batches,
    recover_labels,
)
from privet.attacks.inversion.gradients.lbfgs import minimize_rows  # noqa: E402
from privet.attacks.inversion.identification import first_of, rank_truths  # noqa: E402
from privet.attacks.inversion.picture_quality import measure_psnr, ssim_at_least  # noqa: E402
from privet.errors import InvalidArgument  # noqa: E402
from privet.exhibits import Picture  # noqa: E402
from privet.randomness import experiment  # noqa: E402
from privet.recoveries import RecoveryGame  # noqa: E402
from privet.shared_gradients import LocalSteps, NoisyStep, OneStep, SharedGradient  # noqa: E402


def perceptron(width=36, hidden=256, classes=5, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def small_net(seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Sigmoid(), nn.Flatten(), nn.Linear(8 * 36, 5))
        for parameter in net.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5)
        return net


def pictures(count, seed=0):
    """Smooth pictures of 6 × 6 pixels, and labels."""
    draws = experiment(seed)
    places = np.linspace(0, 1, 6)
    waves = draws.uniform(0, 6, (count, 4))
    grid = np.sin(waves[:, 0, None, None] * places[:, None] + waves[:, 1, None, None]) * np.cos(
        waves[:, 2, None, None] * places[None] + waves[:, 3, None, None]
    )
    noise = draws.uniform(-0.1, 0.1, grid.shape)
    return np.clip(0.5 + 0.4 * grid + noise, 0, 1)[:, None], draws.integers(0, 5, count)


def messages_of(model, rows, labels, batch, sharing=None, seed=0):
    draws = experiment(seed)
    return [
        model.share(
            rows[start : start + batch],
            labels[start : start + batch],
            *([] if sharing is None else [sharing]),
            randomness=draws,
        )
        for start in range(0, len(rows), batch)
    ]


# ---- replays


def test_a_replay_is_what_torch_computes():
    model = PublicModel(small_net(), shape=(1, 6, 6))
    rows, labels = pictures(3)
    loss = nn.functional.cross_entropy(model.module(torch.tensor(rows).float()), torch.tensor(labels))
    expected = torch.autograd.grad(loss, list(model.module.parameters()))
    got = model.share(rows, labels)
    for (name, _), value in zip(model.module.named_parameters(), expected, strict=True):
        assert np.allclose(got.gradients[name], value.numpy(), atol=1e-6)
    assert all(parameter.grad is None for parameter in model.module.parameters())


def test_an_update_is_what_local_steps_do():
    model = PublicModel(small_net(), shape=(1, 6, 6))
    rows, labels = pictures(4)
    net = small_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    before = {name: value.detach().double().numpy().copy() for name, value in net.named_parameters()}
    for _ in range(2):
        for part in (slice(0, 2), slice(2, 4)):
            optimizer.zero_grad()
            nn.functional.cross_entropy(
                net(torch.tensor(rows[part]).float()), torch.tensor(labels[part])
            ).backward()
            optimizer.step()
    after = {name: value.detach().double().numpy() for name, value in net.named_parameters()}
    sharing = LocalSteps(learning_rate=0.1, batch_size=2, epochs=2)
    seen = SharedGradient.between(before, after, learning_rate=0.1, examples=4, sharing=sharing)
    replayed = model.share(rows, labels, sharing)
    for name in before:
        assert np.allclose(seen.gradients[name], replayed.gradients[name], atol=1e-4)


def test_a_noisy_step_is_clipped_and_noised():
    model = PublicModel(perceptron(), shape=(1, 6, 6))
    rows, labels = pictures(2)
    exact = model.share(rows, labels, NoisyStep(clip=0.01, noise_multiplier=0.0))
    assert exact.norm <= 0.01 * (1 + 1e-5)
    noisy = model.share(rows, labels, NoisyStep(clip=0.01, noise_multiplier=3.0), randomness=experiment(1))
    gaps = np.concatenate([(noisy.gradients[n] - exact.gradients[n]).ravel() for n in exact.gradients])
    # Standard deviation 0.01 · 3 / 2 over some 10,000 coordinates: 6 standard errors.
    assert abs(gaps.std() / 0.015 - 1) < 6 / np.sqrt(2 * len(gaps))


# ---- exact recovery


@pytest.mark.parametrize("batch", [1, 4, 8])
def test_the_first_layer_tells_a_batch_and_its_labels(batch):
    model = PublicModel(perceptron(hidden=512), shape=(1, 6, 6))
    rows, labels = pictures(2 * batch, seed=batch)
    found = FirstLayer().recover(model, messages_of(model, rows, labels, batch))
    order = align_batches(found.rows, rows, batch=batch)
    assert np.abs(found.rows[order] - rows).max() < 1e-2
    assert (found.labels.ravel()[order] == labels).all()


def test_the_first_layer_never_claims_a_mixture():
    """Too few neurons for the batch: what is not found is NaN, and what is found is right."""
    model = PublicModel(perceptron(hidden=48), shape=(1, 6, 6))
    rows, labels = pictures(60, seed=3)
    found = FirstLayer().recover(model, messages_of(model, rows, labels, 12))
    claimed = np.isfinite(found.rows).all(axis=(1, 2, 3))
    assert 0 < claimed.mean() < 1
    for place in np.flatnonzero(claimed):
        batch = rows[place // 12 * 12 : place // 12 * 12 + 12]
        assert np.abs(batch - found.rows[place]).max(axis=(1, 2, 3)).min() < 0.01


def test_a_federated_update_tells_its_examples_too():
    model = PublicModel(perceptron(hidden=512), shape=(1, 6, 6))
    rows, labels = pictures(4)
    update = model.share(rows, labels, LocalSteps(learning_rate=0.05, batch_size=2, epochs=2))
    found = FirstLayer().recover(model, [update])
    order = align_batches(found.rows, rows, batch=4)
    assert np.abs(found.rows[order] - rows).max() < 1e-2


def test_an_imprint_recovers_every_client_of_a_sum():
    public, _ = pictures(400, seed=9)
    module = ImprintModel(perceptron(hidden=8), classes=5, public=public, neurons=300, seed=1)
    model = PublicModel(module, shape=(1, 6, 6))
    rows, labels = pictures(96, seed=2)
    clients = messages_of(model, rows, labels, 4)
    found = Imprint().recover(model, [SharedGradient.mean_of(clients)])
    order = align_batches(found.rows, rows, batch=96)
    assert (np.nan_to_num(np.abs(found.rows[order] - rows), nan=1.0).max(axis=(1, 2, 3)) < 0.02).mean() > 0.98


# ---- labels


@pytest.mark.parametrize("bias", [True, False])
def test_labels_of_a_batch_are_counted(bias):
    net = perceptron()
    net[3] = nn.Linear(256, 5, bias=bias)
    model = PublicModel(net, shape=(1, 6, 6))
    rows, labels = pictures(80, seed=4)
    counted = recover_labels(model, messages_of(model, rows, labels, 8), public=pictures(50, seed=5)[0])
    assert (counted == np.sort(labels.reshape(10, 8), axis=1)).mean() > (0.97 if bias else 0.8)
    single = recover_labels(model, messages_of(model, rows, labels, 1))
    assert (single[:, 0] == labels).all()  # one negative entry: the label


# ---- optimisation


def test_many_problems_are_minimised_at_once_as_each_alone():
    draws = torch.Generator().manual_seed(0)
    bowls = torch.rand((4, 6), generator=draws, dtype=torch.float64) * 5 + 0.1
    middles = torch.randn((4, 6), generator=draws, dtype=torch.float64)

    def evaluate(points, rows):
        gaps = points - middles[rows]
        quartic = (gaps**4).sum(dim=1)
        return (bowls[rows] * gaps**2).sum(dim=1) + quartic, 2 * bowls[rows] * gaps + 4 * gaps**3

    start = torch.zeros((4, 6), dtype=torch.float64)
    found, values = minimize_rows(evaluate, start, iterations=60)
    assert torch.allclose(found, middles, atol=1e-6)
    for row in range(4):
        alone, _ = minimize_rows(
            lambda p, r, row=row: evaluate(p, r + row), start[row : row + 1], iterations=60
        )
        assert torch.allclose(alone[0], found[row], atol=1e-6)
    assert (values < 1e-12).all()


@pytest.mark.parametrize(
    ("attack", "sharing", "least"),
    [
        (DeepLeakage(iterations=100), OneStep(), 50.0),
        (DeepLeakage(iterations=60), LocalSteps(learning_rate=0.1, batch_size=1, epochs=2), 30.0),
        (InvertingGradients(iterations=200, smoothness=0.001), OneStep(), 25.0),
        pytest.param(
            InvertingGradients(iterations=200, smoothness=0.001),
            NoisyStep(clip=0.1, noise_multiplier=0.0),
            25.0,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["deep leakage", "deep leakage, two steps", "inverting gradients", "inverting, clipped"],
)
def test_matching_recovers_pictures(attack, sharing, least):
    model = PublicModel(small_net(), shape=(1, 6, 6))
    rows, labels = pictures(2, seed=6)
    found = attack.recover(model, messages_of(model, rows, labels, 1, sharing))
    assert (found.labels[:, 0] == labels).all()
    assert np.median(measure_psnr(found.rows, rows)) > least
    blind = np.repeat(pictures(100, seed=7)[0].mean(axis=0)[None], 2, axis=0)
    assert measure_psnr(blind, rows).max() < 20


def test_messages_together_give_what_each_gives_alone():
    model = PublicModel(small_net(), shape=(1, 6, 6))
    rows, labels = pictures(2, seed=8)
    shared = messages_of(model, rows, labels, 1)
    together = DeepLeakage(iterations=60).recover(model, shared)
    alone = DeepLeakage(iterations=60).recover(model, shared[1:])
    assert np.abs(together.inputs[1] - alone.inputs[0]).max() < 0.02  # both are the truth


def test_a_table_is_recovered_by_pooled_restarts():
    columns = MixedColumns((1, 1, 3, 4))
    draws = experiment(0)
    rows = np.concatenate(
        [
            draws.standard_normal((4, 2)),
            np.eye(3)[draws.integers(0, 3, 4)],
            np.eye(4)[draws.integers(0, 4, 4)],
        ],
        axis=1,
    )
    net = nn.Sequential(nn.Linear(9, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 2))
    with torch.no_grad():
        weights = torch.Generator().manual_seed(3)
        for parameter in net.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=weights))
    model = PublicModel(net, shape=(9,))
    shared = messages_of(model, rows, np.array([0, 1, 0, 1]), 2)
    found = TabularInversion(columns, restarts=4, iterations=200).recover(model, shared)
    order = align_batches(found.rows, rows, batch=2)
    assert columns.share_right(found.rows[order], rows).mean() > 0.9
    blind = np.repeat(columns.most_frequent(rows)[None], 4, axis=0)
    game = RecoveryGame(rows, None, blind=blind, criterion=columns.criterion(0.75))
    judged = TabularInversion(columns, restarts=4, iterations=200).run(model, shared, game)
    assert judged.hits.mean() > judged.blind_hits.mean()


# ---- tokens


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(80, 32), nn.Embedding(6, 32)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 2, 48, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.end = nn.Linear(32, 3)
        self.register_buffer("mask", torch.triu(torch.full((6, 6), float("-inf")), 1))

    def forward(self, tokens):
        h = self.tokens(tokens) + self.places.weight
        for layer in self.layers:
            h = layer(h, src_mask=self.mask)
        return self.end(h.mean(dim=1))


FIRST, SECOND = "layers.0.self_attn.in_proj_weight", "layers.1.self_attn.in_proj_weight"


@pytest.fixture(scope="module")
def transformer():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return PublicModel(Transformer().eval(), shape=(6,))


@pytest.mark.parametrize("batch", [1, 3])
def test_sentences_are_read_word_by_word(transformer, batch):
    draws = experiment(1)
    tokens, labels = draws.integers(0, 80, (3 * batch, 6)), draws.integers(0, 3, 3 * batch)
    found = SpanCheck(FIRST, SECOND).recover(transformer, messages_of(transformer, tokens, labels, batch))
    order = align_batches(found.rows, tokens, batch=batch)
    assert (found.rows[order] == tokens).all()
    assert (found.labels == np.sort(labels.reshape(3, batch), axis=1)).all()


def test_too_many_tokens_for_the_width_are_refused(transformer):
    tokens = experiment(2).integers(0, 80, (8, 6))
    message = transformer.share(tokens, np.zeros(8, dtype=np.int64))
    with pytest.raises(InvalidArgument, match="fewer tokens than the layer's width 32.*shorter or fewer"):
        SpanCheck(FIRST, SECOND).recover(transformer, [message])
    with pytest.raises(InvalidArgument, match="'second' must name a matrix of the second attention layer"):
        SpanCheck(FIRST).recover(transformer, [message])


# ---- noise


def test_noise_stops_the_blind_attack_long_before_the_informed_one():
    model = PublicModel(perceptron(hidden=128), shape=(1, 6, 6))
    rows, labels = pictures(60, seed=1)
    public = pictures(100, seed=2)[0]
    hits = {}
    for noise in (0.001, 0.1):
        sharing = NoisyStep(clip=1.0, noise_multiplier=noise)
        shared = messages_of(model, rows[:30], labels[:30], 1, sharing)
        for attack in (RankOne(public), ExpectedSignal(public), CandidateTest(rows, labels)):
            found = attack.recover(model, shared)
            hits[attack.name, noise] = (rank_truths(found.rows, rows[:30], rows) == 1).mean()
    assert hits["rank one", 0.001] > 0.95
    assert hits["candidate test", 0.001] == 1.0
    assert hits["rank one", 0.1] <= hits["expected signal", 0.1] + 0.1
    assert hits["rank one", 0.1] < 0.3 < hits["candidate test", 0.1]


# ---- judging


def test_an_attack_is_judged_against_the_blind_guess_and_shown():
    model = PublicModel(perceptron(hidden=256), shape=(1, 6, 6))
    rows, labels = pictures(4, seed=1)
    blind = np.repeat(pictures(100, seed=2)[0].mean(axis=0)[None], 4, axis=0)
    game = RecoveryGame(
        rows, None, blind=blind, criterion=first_of(np.concatenate([rows, pictures(96, seed=3)[0]]))
    )
    judged = FirstLayer().run(
        model, messages_of(model, rows, labels, 2), game, draw=lambda row: Picture(np.asarray(row)[0])
    )
    assert judged.hits.all()
    assert not judged.blind_hits.any()
    assert judged.criterion == "first of 100 candidates"
    assert len(judged.exhibits) == 4
    with pytest.raises(InvalidArgument, match="'game' must have 4 targets"):
        FirstLayer().run(
            model, messages_of(model, rows, labels, 2), RecoveryGame(rows[:2], None, blind=blind[:2])
        )


def test_a_wrong_recovery_is_a_miss():
    """A mutation: an attack that gives the blind guess gains nothing by the assignment."""
    rows, _ = pictures(6, seed=1)
    constant = np.repeat(rows.mean(axis=0)[None], 6, axis=0)
    assert (rank_truths(np.zeros_like(rows), rows, rows) == 6).all()
    game = RecoveryGame(rows, None, blind=constant, criterion=ssim_at_least(0.5))
    with pytest.raises(InvalidArgument, match="at least 7 × 7 pixels"):
        game.judge(constant, "constant", adversary=FirstLayer.adversary)


# ---- bad input


def test_bad_input_is_refused_in_one_sentence():
    rows, labels = pictures(2)
    model = PublicModel(small_net(), shape=(1, 6, 6))
    message = model.share(rows, labels)

    frozen = small_net().requires_grad_(False)
    with pytest.raises(InvalidArgument, match="parameters that require gradients.*requires_grad_"):
        PublicModel(frozen, shape=(1, 6, 6))
    with pytest.raises(InvalidArgument, match="'module'"):
        PublicModel("a model", shape=(1, 6, 6))
    with pytest.raises(InvalidArgument, match="take inputs of shape \\(3, 5\\).*without the batch"):
        PublicModel(small_net(), shape=(3, 5))

    normed = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(32, 5))
    with pytest.raises(InvalidArgument, match="batch normalisation in training mode.*eval\\(\\)"):
        PublicModel(normed, shape=(1, 6, 6))
    PublicModel(normed.eval(), shape=(1, 6, 6))
    with pytest.raises(InvalidArgument, match="dropout in training mode"):
        PublicModel(nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, 5)), shape=(1, 6, 6))

    with pytest.raises(InvalidArgument, match="'labels' must be classes from 0 to 4"):
        model.share(rows, np.array([0, 5]))
    with pytest.raises(InvalidArgument, match="'inputs' must be rows of shape"):
        model.share(rows[:, :, :3], labels)
    with pytest.raises(InvalidArgument, match="'inputs' must be finite"):
        model.share(np.full_like(rows, np.nan), labels)
    with pytest.raises(InvalidArgument, match="'labels' must be 1 × 2 classes"):
        DeepLeakage(labels=np.array([[0, 9]])).recover(model, [message])

    with pytest.raises(InvalidArgument, match="mismatch at '0.bias'.*computed on"):
        DeepLeakage().recover(PublicModel(perceptron(), shape=(1, 6, 6)), [message])
    wider = PublicModel(perceptron(hidden=64), shape=(1, 6, 6))
    with pytest.raises(InvalidArgument, match="must have shape \\(256, 36\\) for '1.weight'"):
        FirstLayer().recover(PublicModel(perceptron(), shape=(1, 6, 6)), [wider.share(rows, labels)])
    with pytest.raises(InvalidArgument, match="NaN or infinity for '0.weight'"):
        SharedGradient({**message.gradients, "0.weight": message.gradients["0.weight"] * np.nan}, 2)
    with pytest.raises(InvalidArgument, match="at least one message"):
        DeepLeakage().recover(model, [])
    with pytest.raises(InvalidArgument, match="one kind and size"):
        DeepLeakage().recover(model, [message, model.share(rows[:1], labels[:1])])


class Rounding(nn.Module):
    def forward(self, inputs):
        return torch.round(inputs * 255) / 255


def test_preprocessing_without_a_derivative_is_refused():
    rows, labels = pictures(1)
    model = PublicModel(nn.Sequential(Rounding(), *small_net()), shape=(1, 6, 6))
    message = model.share(rows, labels)
    for attack in (DeepLeakage(), InvertingGradients()):
        with pytest.raises(InvalidArgument, match="differentiable in its input.*module without it"):
            attack.recover(model, [message])


def test_attacks_say_which_models_they_need():
    rows, labels = pictures(2)
    convolution = PublicModel(small_net(), shape=(1, 6, 6))
    message = convolution.share(rows, labels)
    with pytest.raises(InvalidArgument, match="start with a linear layer"):
        FirstLayer().recover(convolution, [message])
    with pytest.raises(InvalidArgument, match="PublicModel of an ImprintModel"):
        Imprint().recover(convolution, [message])
    with pytest.raises(InvalidArgument, match="messages of one example, got 2"):
        RankOne(rows).recover(convolution, [message])
    flat = PublicModel(nn.Linear(4, 3), shape=(4,))
    with pytest.raises(InvalidArgument, match="must take pictures"):
        InvertingGradients().recover(flat, [flat.share(np.zeros((1, 4)), np.array([0]))])
    with pytest.raises(InvalidArgument, match="'columns' must describe"):
        TabularInversion(MixedColumns((1, 2))).recover(flat, [flat.share(np.zeros((1, 4)), np.array([0]))])
    with pytest.raises(InvalidArgument, match="'candidates' must be at least two inputs"):
        CandidateTest(rows[:1], labels[:1])
    with pytest.raises(InvalidArgument, match="'randomness' must be given"):
        convolution.share(rows, labels, NoisyStep(clip=1.0, noise_multiplier=1.0))
    with pytest.raises(InvalidArgument, match="multiple of the local batch size 3"):
        convolution.share(rows, labels, LocalSteps(learning_rate=0.1, batch_size=3))
