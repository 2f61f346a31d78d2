"""The user as the unit: an example is all that a user contributes, and a user moves a step by the clip at most."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import privet  # noqa: E402
from privet.adjacency import AddRemove, Unit  # noqa: E402
from privet.attacks.text import LSTMLanguageModel, TransformerLanguageModel  # noqa: E402
from privet.errors import InvalidArgument  # noqa: E402
from privet.randomness import SeededNoise  # noqa: E402
from privet.training import ClippedSums, Flat, UserLanguageModel, gather_users, per_example_loss  # noqa: E402

WORDS, TEXTS, LENGTH = 15, 3, 6


def texts(users=12, seed=0):
    draw = np.random.default_rng(seed)
    sequences, owners = [], []
    for user in range(users):
        for _ in range(int(draw.integers(1, 6))):
            sequences.append(np.concatenate([[0], draw.integers(1, WORDS, size=draw.integers(1, 9))]))
            owners.append(f"user {user}")
    return sequences, owners


def gather(sequences, owners, **options):
    return gather_users(sequences, owners, most_texts=TEXTS, most_tokens=LENGTH, **options)


def models():
    torch.manual_seed(0)
    return (
        LSTMLanguageModel(WORDS, embedding=5, width=6),
        TransformerLanguageModel(WORDS, context=LENGTH, width=8, heads=2, layers=1),
    )


def test_an_example_holds_at_most_so_much_of_a_user():
    sequences, owners = texts()
    found = gather(sequences, owners)
    assert found.inputs.shape == (12, TEXTS, LENGTH)
    for row, name in enumerate(sorted(set(owners))):
        own = [one for one, owner in zip(sequences, owners, strict=True) if owner == name]
        kept = found.targets[row][found.targets[row] != -100]
        sizes = [min(LENGTH, len(one) - 1) for one in own]
        assert len(kept) <= sum(sizes)
        if len(own) <= TEXTS:  # then nothing but the ends of long texts is left out
            assert len(kept) == sum(sizes)
        read = int((found.targets[row].reshape(TEXTS, LENGTH) != -100).any(dim=1).sum())
        assert read == min(TEXTS, len(own))


def test_a_row_depends_on_its_own_user_alone():
    sequences, owners = texts()
    found = gather(sequences, owners)
    order = np.random.default_rng(1).permutation(len(owners))
    shuffled = gather([sequences[one] for one in order], [owners[one] for one in order])
    assert torch.equal(found.inputs, shuffled.inputs)
    assert torch.equal(found.targets, shuffled.targets)
    kept = [place for place, owner in enumerate(owners) if owner != "user 4"]
    fewer = gather([sequences[one] for one in kept], [owners[one] for one in kept])
    names = sorted(set(owners))
    others = [row for row, name in enumerate(names) if name != "user 4"]
    assert torch.equal(found.inputs[others], fewer.inputs)


@pytest.mark.parametrize("which", [0, 1])
def test_a_user_is_clipped_as_a_whole(which):
    """The clipped sum is that of a loop over users: the mean over a user's tokens, clipped once."""
    model = UserLanguageModel(models()[which])
    found = gather(*texts())
    sums = ClippedSums(model, per_example_loss(torch.nn.CrossEntropyLoss()), Flat(0.05))
    got = sums.layout.zeros()
    norms = sums.add((found.inputs,), found.targets, got)
    wanted = torch.zeros_like(got)
    for row in range(len(found)):
        logits = model(found.inputs[row : row + 1])[0]
        loss = torch.nn.functional.cross_entropy(logits, found.targets[row])
        gradient = torch.autograd.grad(loss, list(model.parameters()))
        one = torch.cat([part.flatten() for part in gradient])
        assert float(one.norm()) > 0.05
        assert float(norms[row]) == pytest.approx(float(one.norm()) ** 2, rel=1e-4)
        wanted += one * (0.05 / one.norm())
    torch.testing.assert_close(got, wanted, atol=1e-6, rtol=1e-4)


def test_a_run_is_accounted_for_users():
    model = UserLanguageModel(models()[0])
    before = model.model.output.weight.detach().clone()
    trained = privet.train(
        model,
        gather(*texts(40)).data,
        epsilon=8.0,
        delta=1e-3,
        epochs=2,
        lot_size=10,
        population=40,
        adjacency=AddRemove(Unit.USER),
        noise=SeededNoise(0),
    )
    assert trained.ledger.adjacency == AddRemove(Unit.USER)
    assert trained.epsilon(delta=1e-3) <= 8.0
    assert not torch.equal(before, model.model.output.weight)


def test_bad_input_gets_one_sentence_each():
    with pytest.raises(InvalidArgument, match="'users' must name the user of every sequence"):
        gather([np.array([0, 1])], [])
    with pytest.raises(InvalidArgument, match="'users' must name"):
        gather([], [])
    with pytest.raises(InvalidArgument, match="'most_texts' must be at least 1"):
        gather_users([np.array([0, 1])], ["a"], most_texts=0, most_tokens=3)
