"""Views of language models: one forward pass gives the same numbers as the plain formulas, on any batch."""

from types import SimpleNamespace

import numpy as np
import pytest

from privet.attacks.text import ByteEncoder, WordEncoder, cut_sequences, encode_texts
from privet.attacks.text.encoders import check_encoder
from privet.attacks.text.token_views import TokenLogProbs, summarise_distributions
from privet.errors import InvalidArgument, ProgramFailed

torch = pytest.importorskip("torch")
nn = torch.nn

from privet.attacks.text import TorchTokenView  # noqa: E402

WORDS = 11


class Recurrent(nn.Module):
    """A small LSTM over tokens; gives a tensor."""

    def __init__(self, batch_first=True, both_ways=False):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 5)
        self.lstm = nn.LSTM(5, 6, batch_first=batch_first, bidirectional=both_ways, dropout=0.0)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(12 if both_ways else 6, WORDS)

    def forward(self, tokens):
        return 3.0 * self.head(self.drop(self.lstm(self.embed(tokens))[0]))


class Masked(nn.Module):
    """A bigram model; the logits of one token are another number."""

    def __init__(self, value):
        super().__init__()
        self.table = nn.Embedding(WORDS, WORDS)
        self.value = value

    def forward(self, tokens):
        logits = self.table(tokens).clone()
        logits[..., 3] = self.value
        return logits


def sequences(seed=0, count=23, longest=15):
    draw = np.random.default_rng(seed)
    return [draw.integers(0, WORDS, size=draw.integers(2, longest)) for _ in range(count)]


def plain(module, sequence):
    """ln p of all tokens at the places before the last token."""
    with torch.no_grad():
        logits = module.eval()(torch.from_numpy(sequence[None, :-1]))[0].double()
    return torch.log_softmax(logits, dim=1).numpy()


@pytest.mark.parametrize("batch_tokens", [1, 40, 4096])
def test_one_pass_gives_the_plain_formulas_on_every_batch(batch_tokens):
    torch.manual_seed(0)
    module, given = Recurrent(), sequences()
    found = TorchTokenView(module, batch_tokens=batch_tokens).logprobs(given, top=4)
    logs = np.concatenate([plain(module, one) for one in given])
    wanted = summarise_distributions(logs, np.concatenate([one[1:] for one in given]), found.offsets, top=4)
    assert len(found) == len(given)
    assert found.lengths.tolist() == [len(one) - 1 for one in given]
    np.testing.assert_array_equal(found.tokens, wanted.tokens)
    np.testing.assert_array_equal(found.ranks, wanted.ranks)
    for name in ("logprobs", "means", "deviations", "top_logprobs"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=2e-5)
    np.testing.assert_allclose(found.sums(found.logprobs)[5], found.of(5).logprobs.sum())
    np.testing.assert_array_equal(found.pick([3, 1]).of(1).ranks, found.of(1).ranks)


def test_moments_of_a_known_distribution():
    logs = np.log([[0.5, 0.25, 0.25]])
    found = summarise_distributions(logs, np.array([1]), np.array([0, 1]))
    entropy = 1.5 * np.log(2)
    assert found.means[0] == pytest.approx(-entropy)
    assert found.deviations[0] == pytest.approx(0.5 * np.log(2))
    assert found.ranks[0] == 3  # a tie counts against the token


def test_flat_distributions_far_below_their_maximum_keep_their_digits():
    class Flat(nn.Module):
        def forward(self, tokens):
            logits = 1e-2 * torch.sin(torch.arange(5000.0)) + 30.0
            logits[0] = 0.0
            return logits.expand(*tokens.shape, 5000)

    found = TorchTokenView(Flat()).logprobs([np.array([1, 2])])
    assert found.deviations[0] == pytest.approx(np.std(1e-2 * np.sin(np.arange(1, 5000.0))), rel=1e-3)


def test_next_logits_are_the_last_place():
    torch.manual_seed(1)
    module, given = Recurrent(), sequences(1)
    found = TorchTokenView(module, batch_tokens=50).next_logits(given)
    for one, row in zip(given, found, strict=True):
        np.testing.assert_allclose(row, plain(module, np.append(one, 0))[-1], atol=2e-5)


def test_the_mode_is_restored_and_evaluation_has_no_dropout():
    module = Recurrent().train()
    view, given = TorchTokenView(module), sequences()
    np.testing.assert_array_equal(view.logprobs(given).logprobs, view.logprobs(given).logprobs)
    assert module.training
    assert module.drop.training


def test_half_precision_is_summarised_in_float32():
    torch.manual_seed(2)
    module, given = Masked(0.5), sequences()
    exact = TorchTokenView(module).logprobs(given)
    half = TorchTokenView(module.to(torch.bfloat16)).logprobs(given)
    np.testing.assert_allclose(half.logprobs, exact.logprobs, atol=0.05)
    logs = half.top_logprobs
    assert logs is None
    assert half.logprobs.dtype == np.float64


def test_masked_tokens_are_impossible_and_nan_is_refused():
    view = TorchTokenView(Masked(-float("inf")))
    found = view.logprobs([np.array([1, 3, 4])])
    assert found.logprobs[0] < -700
    assert np.isfinite(found.deviations).all()
    for value in (float("nan"), float("inf")):
        with pytest.raises(InvalidArgument, match="got logits that are NaN"):
            TorchTokenView(Masked(value)).logprobs([np.array([1, 3, 4])])
    with pytest.raises(InvalidArgument, match="got logits that are NaN"):
        TorchTokenView(Masked(float("nan"))).next_logits([np.array([1])])


def test_models_that_read_ahead_or_across_rows_are_refused():
    torch.manual_seed(3)
    for module in (Recurrent(both_ways=True), Recurrent(batch_first=False)):
        with pytest.raises(InvalidArgument, match="'model' must be causal"):
            TorchTokenView(module)


def test_bad_sequences_get_one_sentence_each():
    view = TorchTokenView(Recurrent(), context=6)
    refusals = {
        "at least one sequence": [],
        "at least 2 tokens": [np.array([1])],
        "tokens from 0 to 10": [np.array([1, WORDS])],
        "at most 6 tokens": [np.arange(7)],
        "one row of whole numbers": [np.array([0.5, 1.0])],
    }
    for message, given in refusals.items():
        with pytest.raises(InvalidArgument, match=message):
            view.logprobs(given)
    assert len(view.logprobs(cut_sequences([np.arange(7)], 6)).tokens) == 5
    with pytest.raises(InvalidArgument, match="'end' must be one of the model's tokens"):
        TorchTokenView(Recurrent(), end=WORDS)
    with pytest.raises(InvalidArgument, match="must give logits of shape"):
        TorchTokenView(nn.Flatten())


def test_a_model_without_a_stated_context_fails_with_the_fix():
    class Placed(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, WORDS), nn.Embedding(4, WORDS)

        def forward(self, tokens):
            return self.words(tokens) + self.places(torch.arange(tokens.shape[1]))

    with pytest.raises(ProgramFailed, match="Give 'context'"):
        TorchTokenView(Placed()).logprobs([np.arange(8)])


def test_models_with_a_configuration_say_their_end_and_context():
    class Configured(nn.Module):
        config = SimpleNamespace(eos_token_id=[2, 4], max_position_embeddings=16)

        def __init__(self):
            super().__init__()
            self.inner = Masked(0.0)

        def forward(self, tokens):
            return SimpleNamespace(logits=self.inner(tokens))

    module, given = Configured(), sequences()
    view = TorchTokenView(module)
    assert (view.vocabulary, view.end, view.context) == (WORDS, 2, 16)
    wanted = TorchTokenView(module.inner).logprobs(given)
    np.testing.assert_array_equal(view.logprobs(given).logprobs, wanted.logprobs)


def test_encoders_come_back_and_bytes_need_no_vocabulary():
    text = "Grüße, 日本 \U0001f600"
    encoder = ByteEncoder()
    assert encoder.decode(encoder.encode(text)) == text
    assert encoder.encode(text).max() < encoder.end == encoder.vocabulary - 1
    words = WordEncoder(("a", "b"))
    (sequence,) = encode_texts(words, ["a c b"], end=words.end)
    assert sequence.tolist() == [3, 0, 2, 1, 3]
    assert words.decode(sequence) == "a � b"
    (sequence,) = encode_texts(words, ["a b"], end=None, longest=1)
    assert sequence.tolist() == [0]


def test_bad_texts_and_encoders_get_one_sentence_each():
    with pytest.raises(InvalidArgument, match="at least 1 token each"):
        encode_texts(ByteEncoder(), ["a", ""], end=256)
    with pytest.raises(InvalidArgument, match="at least 2 tokens each"):
        encode_texts(ByteEncoder(), ["a"], end=None)
    with pytest.raises(InvalidArgument, match="'texts' must be a list"):
        encode_texts(ByteEncoder(), [], end=256)
    with pytest.raises(InvalidArgument, match="must be different words"):
        WordEncoder(("a", "a"))
    with pytest.raises(InvalidArgument, match="'encoder' must have the model's 11 tokens"):
        check_encoder(ByteEncoder(), TorchTokenView(Recurrent()), ["a"])


def test_flat_arrays_must_fit_their_offsets():
    one = np.zeros(2)
    with pytest.raises(InvalidArgument, match="'offsets' must lead from 0 to 2"):
        TokenLogProbs(np.zeros(2, int), one, np.ones(2, int), one, one, np.array([0, 1]))
    with pytest.raises(InvalidArgument, match="one value for each token"):
        TokenLogProbs(np.zeros(2, int), np.zeros(3), np.ones(2, int), one, one, np.array([0, 2]))


@pytest.mark.parametrize("failure", [ValueError, TypeError, KeyError, AttributeError])
def test_a_model_that_wants_more_than_tokens_is_refused_by_a_privet_error(failure):
    class Demanding(torch.nn.Module):
        def forward(self, tokens):
            raise failure("token 17")

    with pytest.raises(ProgramFailed, match="must take tokens alone") as found:
        TorchTokenView(Demanding())
    assert "17" not in str(found.value)
