"""Data as people have it: what goes into the model is what a loop over the examples would put there."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from privet.errors import InvalidArgument
from privet.randomness import SeededNoise
from privet.training import (
    Canaries,
    Denoising,
    Flat,
    Mislabelled,
    MovingAverage,
    PerLayer,
    TrainingPlan,
    make_private,
    train,
)
from privet.training.loop.inputs import prepare_data, read_data
from privet.training.loop.step import NoisyGradient
from privet.training.sampling.ragged import choose_padded_length
from privet.training.sampling.reading import as_examples

COUNT = 40


@pytest.fixture(autouse=True)
def uncalibrated(monkeypatch):
    monkeypatch.setattr(
        TrainingPlan, "with_least_noise", lambda plan, target: replace(plan, noise_multiplier=4.0)
    )


def columns(count=COUNT):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 3, generator=generator), torch.randint(0, 2, (count,), generator=generator)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


class TwoInputs(nn.Module):
    """Keyword inputs, one of which may be left out."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, features, scale=None):
        hidden = torch.tanh(self.one(features))
        return self.two(hidden if scale is None else hidden * scale[:, None])


class Rows(Dataset):
    def __init__(self, form, count=COUNT):
        self.form, self.count = form, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        inputs, targets = columns(self.count)
        return self.form(inputs[index], targets[index])


class MappingStyle:
    """What Hugging Face's ``datasets.Dataset`` is: a length, and dictionaries of Python objects."""

    column_names = ("idx", "features", "scale", "label")

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        inputs, targets = columns()
        return {
            "idx": f"row {index}",
            "features": inputs[index].tolist(),
            "scale": 0.5 + index / COUNT,
            "label": int(targets[index]),
        }


def settings(**more):
    return {"epsilon": 3.0, "delta": 1e-6, "epochs": 1, "lot_size": 10, "noise": SeededNoise(1)} | more


def sums_of(model, data, loss=None, indices=None, **more):
    """The clipped sum of a lot, as ``train`` computes it."""
    examples, chosen = prepare_data(model, data, loss, **more)
    gradient = NoisyGradient(
        model,
        Flat(0.3),
        divisor=1.0,
        multiplier=0.0,
        source=SeededNoise(1),
        input_names=examples.input_names,
    )
    gradient.collect(examples, torch.arange(len(examples)) if indices is None else indices, chosen)
    return gradient.buffer.clone()


def loop_over(model, calls, loss):
    """The same by a loop over examples: ``calls`` are functions of the model, ``loss`` is one of each output."""
    parameters = list(model.parameters())
    total = torch.zeros(sum(p.numel() for p in parameters), dtype=torch.float64)
    for call, target in calls:
        gradients = torch.autograd.grad(loss(call(model), target), parameters, allow_unused=True)
        pairs = zip(parameters, gradients, strict=True)
        row = torch.cat([(torch.zeros_like(p) if g is None else g).flatten().double() for p, g in pairs])
        total += row * min(1.0, 0.3 / float(row.norm()))
    return total


def expected(with_scale):
    inputs, targets = columns()
    calls = [
        (
            lambda model, i=i: model(
                inputs[i : i + 1], torch.tensor([0.5 + i / COUNT]) if with_scale else None
            ),
            targets[i : i + 1],
        )
        for i in range(COUNT)
    ]
    return loop_over(TwoInputs(), calls, F.cross_entropy)


SCALE = 0.5 + torch.arange(COUNT) / COUNT
X, Y = columns()
DICTIONARIES = {
    "tensors": {"features": X, "scale": SCALE, "labels": Y},
    "arrays": {"label": Y.numpy(), "features": X.double().numpy(), "scale": SCALE.tolist()},
    "lists": {"features": X.tolist(), "scale": SCALE.tolist(), "target": Y.tolist()},
    "pair": ({"features": X, "scale": SCALE}, Y),
    "records": [
        {"features": x, "scale": s, "labels": int(y)} for x, s, y in zip(X, SCALE.tolist(), Y, strict=True)
    ],
    "records of pairs": [({"features": x, "scale": s}, y) for x, s, y in zip(X, SCALE, Y, strict=True)],
}


@pytest.mark.parametrize("name", DICTIONARIES)
def test_dictionaries_go_to_the_model_by_keyword(name):
    assert torch.allclose(sums_of(TwoInputs(), DICTIONARIES[name]).double(), expected(True), atol=2e-5)


@pytest.mark.parametrize(
    "data",
    [
        (X, Y),
        (X, SCALE, Y),
        ((X, SCALE), Y),
        [(x, s, y) for x, s, y in zip(X, SCALE, Y, strict=True)],
        [((x, s), y) for x, s, y in zip(X, SCALE, Y, strict=True)],
        tuple(zip(*[(x, y) for x, y in zip(X, Y, strict=True)], strict=True)),
        {"features": X, "y": Y},
        Rows(lambda x, y: (x, y)),
        Rows(lambda x, y: {"features": x.double(), "labels": y}),
        Rows(lambda x, y: {"features": x.numpy(), "labels": int(y)}),
        ConcatDataset(
            [Subset(Rows(lambda x, y: (x, y)), range(25)), Subset(Rows(lambda x, y: (x, y)), range(25, 40))]
        ),
    ],
    ids=lambda data: type(data).__name__,
)
def test_tuples_go_to_the_model_in_order(data):
    with_scale = isinstance(data, tuple) and (
        len(data) == 3 or (isinstance(data[0], tuple) and len(data[0]) == 2)
    )
    with_scale = with_scale or (
        isinstance(data, list) and (len(data[0]) == 3 or isinstance(data[0][0], tuple))
    )
    assert torch.allclose(sums_of(TwoInputs(), data).double(), expected(with_scale), atol=2e-5)


def test_a_dataset_in_the_style_of_hugging_face():
    """Columns that the model has no argument for are left out, with a note, as by the Trainer."""
    with pytest.warns(UserWarning, match="idx"):
        found = sums_of(TwoInputs(), MappingStyle())
    assert torch.allclose(found.double(), expected(True), atol=2e-5)
    with pytest.raises(InvalidArgument, match=r"data\['train'\]"):
        read_data(TwoInputs(), {"train": MappingStyle(), "test": MappingStyle()})


def test_one_column_of_another_name_goes_to_the_only_argument():
    data = {"image": X, "label": Y}
    assert torch.equal(sums_of(network(), data), sums_of(network(), (X, Y)))
    with pytest.raises(InvalidArgument, match="names of the model's arguments"):
        read_data(network(), {"a": X, "b": X, "label": Y})
    with pytest.raises(InvalidArgument, match="target column"):
        read_data(network(), {"image": X, "caption": Y})


# Loaders --------------------------------------------------------------------------------------------------------------


def test_a_loader_gives_its_dataset_and_a_note():
    for dataset in (TensorDataset(X, Y), Rows(lambda x, y: {"features": x, "labels": y})):
        loader = DataLoader(dataset, batch_size=7, shuffle=True)
        with pytest.warns(UserWarning, match="draws its lots"):
            found = sums_of(TwoInputs(), loader)
        assert torch.allclose(found.double(), expected(False), atol=2e-5)


def test_samplers_of_a_loader_are_refused():
    dataset = TensorDataset(X, Y)
    for sampler in (SubsetRandomSampler(range(5)), WeightedRandomSampler([1.0] * COUNT, COUNT)):
        with pytest.raises(InvalidArgument, match="Subset"):
            read_data(network(), DataLoader(dataset, sampler=sampler))
    with pytest.raises(InvalidArgument, match="sampler of its own"):
        read_data(network(), DataLoader(dataset, batch_sampler=[[0, 1], [2, 3]]))


class Stream(IterableDataset):
    def __iter__(self):
        yield from zip(X, Y, strict=True)


@pytest.mark.parametrize(
    "data",
    [Stream(), DataLoader(Stream(), batch_size=4), iter([(X, Y)]), (row for row in X)],
    ids=["stream", "loader", "iterator", "generator"],
)
def test_streams_are_refused_with_the_reason(data):
    for call in (
        train,
        lambda model, data, **more: make_private(model, torch.optim.SGD, data, clip=1.0, **more),
    ):
        with pytest.raises(InvalidArgument, match="draws each example at random by itself"):
            call(network(), data, **settings())


def test_tables_that_do_not_say_their_target_are_refused():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidArgument, match="'data' must be"):
        read_data(network(), pandas.DataFrame({"a": [1.0, 2.0], "label": [0, 1]}))


# Collate and ragged sequences -----------------------------------------------------------------------------------------


class Bag(nn.Module):
    """The mean over the tokens of a sequence *with* its padding: the gradient depends on the padded length."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.head = nn.Embedding(20, 4), nn.Linear(4, 2)

    def forward(self, tokens):
        return self.head(self.table(tokens).mean(1))


def sequences(count=COUNT):
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 30, count)
    return [torch.from_numpy(generator.integers(1, 20, n)) for n in lengths]


def pad_batch(examples):
    """The collate function that everybody writes: it pads to the longest example of the batch."""
    tokens = nn.utils.rnn.pad_sequence([x for x, _ in examples], batch_first=True)
    return tokens, torch.stack([y for _, y in examples])


def test_a_collate_function_sees_one_example_at_a_time():
    """So an example's padding, and with it its gradient, does not depend on the other examples of a lot."""
    rows = list(zip(sequences(), Y, strict=True))
    calls = [(lambda model, x=x: model(x[None]), y[None]) for x, y in rows]
    wanted = loop_over(Bag(), calls, F.cross_entropy)
    assert torch.allclose(sums_of(Bag(), rows, collate=pad_batch).double(), wanted, atol=2e-5)
    with pytest.warns(UserWarning, match="draws its lots"):
        found = sums_of(Bag(), DataLoader(rows, batch_size=8, collate_fn=pad_batch))
    assert torch.allclose(found.double(), wanted, atol=2e-5)


@pytest.mark.parametrize("as_lists", [True, False])
def test_sequences_are_padded_by_their_own_length(as_lists):
    tokens = sequences()
    calls = [
        (lambda model, x=x: model(F.pad(x, (0, choose_padded_length(len(x)) - len(x)))[None]), y[None])
        for x, y in zip(tokens, Y, strict=True)
    ]
    data = ([x.tolist() for x in tokens] if as_lists else tokens, Y)
    assert torch.allclose(sums_of(Bag(), data).double(), loop_over(Bag(), calls, F.cross_entropy), atol=2e-5)


def test_one_long_sequence_changes_no_other_example():
    """A law of sensitivity: with and without a record, the sums of the others are the same to the last digits."""
    tokens = [*sequences(), torch.ones(500, dtype=torch.int64)]
    labels = torch.cat((Y, torch.tensor([1])))
    others = torch.arange(COUNT)
    assert torch.allclose(
        sums_of(Bag(), (tokens, labels), indices=others), sums_of(Bag(), (tokens[:-1], Y)), atol=1e-6
    )
    whole = sums_of(Bag(), (tokens, labels))
    assert float((whole - sums_of(Bag(), (tokens[:-1], Y))).norm()) <= 0.3 * (1 + 1e-5)


def test_labels_of_tokens_are_filled_with_what_is_ignored():
    class Tagger(Bag):
        def forward(self, tokens):
            return self.head(self.table(tokens))

    tokens = sequences()
    tags = [x % 2 for x in tokens]
    calls = [(lambda model, x=x: model(x[None])[0], t) for x, t in zip(tokens, tags, strict=True)]
    found = sums_of(Tagger(), {"tokens": tokens, "labels": [t.tolist() for t in tags]})
    assert torch.allclose(found.double(), loop_over(Tagger(), calls, F.cross_entropy), atol=2e-5)
    with pytest.raises(InvalidArgument, match="padding would count"):
        read_data(Tagger(), (tokens, [t.float() for t in tags]))


def test_what_collate_returns_is_checked():
    rows = [(x, y) for x, y in zip(X, Y, strict=True)]
    with pytest.raises(InvalidArgument, match="one row for each example"):
        train(network(), rows, collate=lambda batch: (torch.ones(2, 3), torch.zeros(2)), **settings())
    with pytest.raises(InvalidArgument, match="'collate' must be left out"):
        read_data(network(), (X, Y), collate=pad_batch)
    with pytest.raises(InvalidArgument, match="examples of numbers"):
        read_data(network(), [("red", 1), ("blue", 0)]).take(torch.tensor([0]))


def test_lengths_of_padding():
    assert all(choose_padded_length(n) >= n for n in range(2000))
    assert all(choose_padded_length(n) <= 1.5 * n for n in range(8, 2000))
    assert len({choose_padded_length(n) for n in range(1, 2000)}) < 20


# Runs -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [DICTIONARIES["tensors"], DICTIONARIES["records"], (sequences(), Y)], ids=str
)
def test_whole_runs(data):
    model = Bag() if isinstance(data, tuple) else TwoInputs()
    assert len(train(model, data, **settings()).history) == 1
    private = make_private(model.train(), torch.optim.Adam, data, clip=PerLayer(1.0), **settings())
    for lot in private.lots():
        private.step(lot, nn.CrossEntropyLoss())
    assert private.steps_done == 4


def test_make_private_converts_as_train_does():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X.double().numpy())
    model = network()
    data = (frame, pandas.Series(Y.numpy().astype(np.int8)))
    private = make_private(model, torch.optim.Adam, data, clip=1.0, **settings())
    for lot in private.lots():
        private.step(lot, nn.CrossEntropyLoss())
    assert private.steps_done == 4


def test_canaries_among_dictionaries_and_sequences():
    for model, data in ((TwoInputs(), DICTIONARIES["tensors"]), (Bag(), (sequences(), Y))):
        trained = train(model, data, canaries=32, **settings())
        assert len(trained.canaries.scores) == 32
    wanted = Canaries(32, Mislabelled(), seed=1)
    trained = train(TwoInputs(), DICTIONARIES["tensors"], canaries=wanted, **settings())
    assert len(trained.canaries.scores) == 32


def test_explanations_have_the_names_of_the_model():
    model = TwoInputs()
    private = make_private(model, torch.optim.Adam, DICTIONARIES["tensors"], clip=1.0, **settings())
    private.step(next(private.lots()), nn.CrossEntropyLoss())
    assert [p.name for p in private.explain()] == [name for name, _ in model.named_parameters()]


# Modes and types ------------------------------------------------------------------------------------------------------


def test_a_model_in_evaluation_mode_is_put_into_training_mode_with_a_note():
    class Modes(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.norm, self.seen = network(), nn.BatchNorm1d(2).requires_grad_(False), set()

        def forward(self, x):
            self.seen.add((self.training, self.norm.training))
            return self.norm(self.body(x))

    model = Modes().eval()
    with pytest.warns(UserWarning, match="put into training mode"):
        train(model, (X, Y), **settings())
    assert model.seen == {(True, False)}
    with pytest.warns(UserWarning, match="put into training mode"):
        make_private(network().eval(), torch.optim.Adam, (X, Y), clip=1.0, **settings())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(network(), (X, Y), **settings())


@pytest.mark.parametrize("more", [{}, {"denoising": Denoising()}, {"average": MovingAverage(0.9)}])
def test_a_model_in_float64_is_trained_in_float64(more):
    model = network().double()
    for data in ((X, Y), (X.double(), Y), [(x, y) for x, y in zip(X.double(), Y, strict=True)]):
        trained = train(model.train(), data, **settings(**more))
        assert {p.dtype for p in trained.model.parameters()} == {torch.float64}


def test_sums_in_float64_are_rounded_before_the_noise():
    """The released gradient is a number of float32 everywhere: no digit of the sum is left without noise."""
    model = network().double()
    examples, loss = prepare_data(model, (X, Y), None)
    gradient = NoisyGradient(model, Flat(0.3), divisor=7.0, multiplier=1.0, source=SeededNoise(1))
    gradient.collect(examples, torch.arange(COUNT), loss)
    assert gradient.buffer.dtype == torch.float32
    assert torch.allclose(gradient.buffer, sums_of(network(), (X, Y)), atol=1e-6)
    gradient.release()
    for parameter in model.parameters():
        assert parameter.grad.dtype == torch.float64
        assert torch.equal(parameter.grad, parameter.grad.float().double())


# Labels ---------------------------------------------------------------------------------------------------------------


WORDS = ["yes" if y else "no" for y in Y.tolist()]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (WORDS, ("no", "yes")),
        (np.array(WORDS), ["no", "yes"]),
        (np.array(WORDS, dtype=object), ("no", "yes")),
        (Y + 1, (1, 2)),
        (Y + 1, range(1, 3)),
        ((Y + 1)[:, None], (1, 2)),
        (Y.numpy() - 1, [-1, 0]),
        (Y.bool(), (False, True)),
        (Y[:, None], None),
        (Y.int(), None),
    ],
)
def test_labels_by_declared_classes(labels, classes):
    wanted = sums_of(network(), (X, Y))
    assert torch.allclose(sums_of(network(), (X, labels), classes=classes), wanted, atol=1e-6)
    rows = [(x, y) for x, y in zip(X, labels, strict=True)]
    assert torch.allclose(sums_of(network(), rows, classes=classes), wanted, atol=1e-6)


def test_classes_are_never_read_from_the_data():
    for data in ((X, WORDS), [(x, w) for x, w in zip(X, WORDS, strict=True)]):
        with pytest.raises(InvalidArgument, match="'classes' must be given"):
            train(network(), data, **settings())
    with pytest.raises(InvalidArgument, match="among the declared classes") as refused:
        train(network(), (X, [*WORDS[:-1], "perhaps"]), classes=("no", "yes"), **settings())
    assert "perhaps" not in str(refused.value)
    for classes in ("no", ("no",), ("no", "no")):
        with pytest.raises(InvalidArgument, match="'classes'"):
            train(network(), (X, WORDS), classes=classes, **settings())


def test_labels_that_may_mean_two_things_need_a_loss():
    rows = F.one_hot(Y, 2)
    with pytest.raises(InvalidArgument, match="one-hot rows"):
        train(network(), (X, rows), **settings())
    found = sums_of(network(), (X, rows), nn.CrossEntropyLoss())
    assert torch.allclose(found, sums_of(network(), (X, Y)), atol=1e-6)


def test_examples_that_are_examples_stay():
    examples = as_examples((X, Y))
    assert as_examples(examples) is examples


# Randomness ----------------------------------------------------------------------------------------------------------


class RareDropPath(nn.Module):
    """Drops a branch of an example with probability 0.05, without a module of torch's dropout."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.branch, self.head = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        mask = (torch.rand(len(x), 1) > 0.05).to(x.dtype) if self.training else 1.0
        return self.head(x + self.branch(x) * mask)


@pytest.mark.parametrize("seed", range(8))
def test_rare_randomness_is_not_taken_for_a_dependence_on_other_examples(seed):
    """Two runs of two examples are the same with probability 0.81. The test of independence must not rely on that."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = RareDropPath()
        torch.manual_seed(seed)
        train(model, (X, Y), **settings(epochs=2))


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_a_model_in_lower_precision_is_refused_in_our_words(low):
    model = nn.Linear(3, 2).to(low)
    with pytest.raises(InvalidArgument, match=r"float32 or float64, got torch\.b?float16.*torch\.autocast"):
        train(model, (torch.randn(COUNT, 3), torch.randint(0, 2, (COUNT,))), **settings())


class LooksForTheEnd(nn.Module):
    """Takes the output at the last token of a text, as heads for classification do; refuses texts without one."""

    def __init__(self):
        super().__init__()
        self.config = type("Config", (), {"eos_token_id": 7, "pad_token_id": 0})()
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, ids):
        end = ids == 7
        if not bool(end.any(1).all()):
            raise ValueError("Each example must contain at least one <eos> token.")
        last = end.shape[1] - 1 - end.int().flip(1).argmax(1)
        return self.head(self.words(ids)[torch.arange(len(ids)), last])


def test_a_model_that_looks_for_the_end_of_a_text_is_tried_on_one():
    ids = torch.randint(1, 7, (COUNT, 5))
    ids[torch.arange(COUNT), torch.randint(0, 5, (COUNT,))] = 7
    trained = train(LooksForTheEnd(), (ids, torch.randint(0, 2, (COUNT,))), **settings())
    assert trained.plan.steps
