"""Recipes for sequences: the same seed gives the same model, and its references work through the shadow engine."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from privet.attacks.shadows import Sequential, study  # noqa: E402
from privet.attacks.text import (  # noqa: E402
    LSTMLanguageModel,
    TextRecipe,
    TorchTokenView,
    TransformerLanguageModel,
    sequence_records,
)
from privet.errors import InvalidArgument, ProgramFailed  # noqa: E402

WORDS = 12


def lstm():
    return LSTMLanguageModel(WORDS, embedding=6, width=8)


def transformer():
    return TransformerLanguageModel(WORDS, context=10, width=8, heads=2, layers=1)


def sequences(count=24):
    draw = np.random.default_rng(0)
    return [np.concatenate([[0], draw.integers(1, WORDS, size=draw.integers(1, 9))]) for _ in range(count)]


@pytest.mark.parametrize("model", [lstm, transformer])
def test_models_are_causal_learn_and_repeat(model):
    given = sequences()
    recipe = TextRecipe(model=model, epochs=6, batch_size=8, learning_rate=2e-2, end=0, context=10)
    view = recipe.train(given, seed=3)
    again = recipe.train(given, seed=3)
    first = next(iter(recipe.train_by_epoch(given, seed=3)))
    assert view.end == 0
    assert view.context == 10
    np.testing.assert_array_equal(view.logprobs(given).logprobs, again.logprobs(given).logprobs)
    assert view.logprobs(given).logprobs.mean() > first.logprobs(given).logprobs.mean() + 0.1
    # Padding never matters: each sequence alone gives the same numbers.
    np.testing.assert_allclose(
        np.concatenate([view.logprobs([one]).logprobs for one in given]),
        view.logprobs(given).logprobs,
        atol=1e-5,
    )


def test_one_step_is_the_mean_over_the_tokens_of_the_batch():
    given = sequences(5)
    recipe = TextRecipe(model=lstm, epochs=1, batch_size=5, learning_rate=1e-3, largest_gradient=None)
    view = recipe.train(given, seed=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        wanted = lstm()
    optimizer = torch.optim.Adam(wanted.parameters(), lr=1e-3)
    total, count = 0.0, 0
    for one in given:
        logs = torch.log_softmax(wanted(torch.from_numpy(one[None, :-1]))[0], dim=1)
        total = total - logs[torch.arange(len(one) - 1), torch.from_numpy(one[1:])].sum()
        count += len(one) - 1
    (total / count).backward()
    optimizer.step()
    np.testing.assert_allclose(
        view.logprobs(given).logprobs, TorchTokenView(wanted).logprobs(given).logprobs, atol=1e-4
    )


def test_the_global_random_state_is_untouched_and_the_description_changes_with_the_recipe():
    before = torch.random.get_rng_state()
    recipe = TextRecipe(model=lstm, epochs=1)
    recipe.train(sequences(), seed=0)
    assert torch.equal(before, torch.random.get_rng_state())
    assert recipe.description() == TextRecipe(model=lstm, epochs=1).description()
    assert recipe.description() != recipe.after(2).description()


def test_references_through_the_shadow_engine_are_cached(tmp_path):
    given = sequences()
    recipe = TextRecipe(model=lstm, epochs=2, batch_size=8)
    records = sequence_records(given)
    one = study(recipe, records, models=2, seed=0, engine=Sequential(), cache=tmp_path, progress=False)
    two = study(recipe, records, models=2, seed=0, engine=Sequential(), cache=tmp_path, progress=False)
    assert one.signals.shape == (2, 1, len(given))
    np.testing.assert_array_equal(one.signals, two.signals)


def test_bad_input_gets_one_sentence_each():
    with pytest.raises(InvalidArgument, match="'model' must be a function"):
        TextRecipe(model=lstm())
    with pytest.raises(InvalidArgument, match="at least 2 tokens each"):
        TextRecipe(model=lstm, epochs=1).train([np.array([1])], seed=0)
    with pytest.raises(InvalidArgument, match="tokens from 0 to 11"):
        TextRecipe(model=lambda: torch.nn.Embedding(20, WORDS), epochs=1).train([np.array([1, 15])], seed=0)
    with pytest.raises(InvalidArgument, match="'width' must be a multiple of 'heads'"):
        TransformerLanguageModel(5, width=6, heads=4)
    with pytest.raises(InvalidArgument, match="cut_sequences"):
        TextRecipe(model=transformer, epochs=1).train([np.arange(12)], seed=0)
    with pytest.raises(ProgramFailed, match="cut_sequences"):
        TextRecipe(model=lambda: torch.nn.Embedding(4, WORDS), epochs=1).train([np.array([1, 5, 1])], seed=0)
    with pytest.raises(InvalidArgument, match="at most 10 tokens, which is the model's context"):
        TorchTokenView(transformer()).logprobs([np.arange(12)])
    with pytest.raises(InvalidArgument, match="gives logits"):
        TextRecipe(model=lambda: torch.nn.EmbeddingBag(3, 2), epochs=1).train([np.array([1, 1])], seed=0)
