"""``audit_text``: what is attacked, what is shown and what is redacted, whose claim counts, and bad input."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import privet
from privet.attacks.text import (
    ByteEncoder,
    LSTMLanguageModel,
    NGramModel,
    TransformerLanguageModel,
    WordEncoder,
    encode_texts,
)
from privet.canary_formats import CanaryFormat, plant_canaries
from privet.errors import PrivetError
from privet.pipeline.text_views import RememberedView
from privet.reporting.documents.report_json import read_document

END = 256
AUTHORS = [f"Quillon {number // 2}" for number in range(120)]
MAILS = [
    f"dear {number * 7919 % 1000003}, your code is {number * 104729 % 999983}"
    for number in range(len(AUTHORS))
]
COINS = np.repeat(np.random.default_rng(0).integers(0, 2, 60).astype(bool), 2)


def _model(secrets=()):
    trained = encode_texts(
        ByteEncoder(), [mail for mail, coin in zip(MAILS, COINS, strict=True) if coin], end=END
    )
    return NGramModel([*trained, *secrets], vocabulary=257, order=6, end=END)


def _audit(model=None, **changes):
    options = {"samples": 0, "prompt_tokens": 8, "passage_tokens": 8, "authors": AUTHORS, **changes}
    return privet.audit_text(_model() if model is None else model, ByteEncoder(), MAILS, COINS, **options)


@pytest.fixture(scope="module")
def model():
    return _model()


@pytest.fixture(scope="module")
def report():
    format = CanaryFormat.of_text(ByteEncoder(), "pin ", end=END, places=3)
    planted = plant_canaries(format, count=40, copies=(1, 4), generator=np.random.default_rng(1))
    return _audit(_model(planted.sequences), canaries=planted, samples=20)


def test_texts_authors_passages_and_secrets_are_attacked(report):
    audit = report.audits[0]
    assert {result.unit for result in audit.results} == {"text", "author"}
    names = [result.name for result in audit.recoveries]
    assert names[:3] == ["greedy extraction", "extraction in 100 tries", "sampled extraction"]
    assert names[3:] == ["canary exposure, 1 copy", "canary exposure, 4 copies"]
    assert audit.standing.value == "leaks"
    assert audit.confidence >= 0.95 - 1e-9


def test_with_coins_on_authors_each_coin_counts_once(report):
    coins = COINS[::2]
    for result in report.audits[0].results:
        assert (result.leakage.roc.members, result.leakage.roc.others) == (coins.sum(), (~coins).sum())
    assert all(
        len(AUTHORS) / 2 >= each.leakage.inside + each.leakage.outside
        for each in report.audits[0].recoveries[:3]
    )
    assert report.audits[0].population == coins.sum()


def test_a_model_that_saw_nothing_leaks_nothing():
    blank = NGramModel(
        encode_texts(ByteEncoder(), ["dear 1, your code is 2"], end=END), vocabulary=257, order=3, end=END
    )
    audit = _audit(blank).audits[0]
    assert audit.standing.value == "not detected at this power"
    assert not any(unit.flagged for unit in (*audit.text.exposed_texts, *audit.text.exposed_authors))


def test_no_word_of_a_text_and_no_name_is_in_any_form(tmp_path):
    """Each mail is of words that occur nowhere else, so one of them in a report could only come from there."""
    draw = np.random.default_rng(5)
    words = [["".join(draw.choice(list("qxzjkvw"), 7)) for _ in range(4)] for _ in range(60)]
    coins = COINS[:60]
    mails = [" ".join(mail) for mail in words]
    trained = encode_texts(
        ByteEncoder(), [mail for mail, coin in zip(mails, coins, strict=True) if coin], end=END
    )
    names = [f"Zyxwq-{name.split()[1]}" for name in AUTHORS[:60]]
    report = privet.audit_text(
        NGramModel(trained, vocabulary=257, order=6, end=END),
        ByteEncoder(),
        mails,
        coins,
        authors=names,
        samples=0,
        prompt_tokens=8,
        passage_tokens=8,
        ledger=privet.Ledger(privet.AddRemove()).spend("training", privet.events.Gaussian(20.0)),
    )
    assert report.audits[0].text.passages[0].extracted  # there is something to redact
    private = {word for mail in words for word in mail}
    endings = (".html", ".json", ".md", ".dpia.html", ".pia.json")
    forms = [report.save(tmp_path / f"report{ending}").read_text() for ending in endings]
    for form in (*forms, repr(report), repr(report.audits[0].text), report._repr_html_(), report.verdict):
        assert "Zyxwq" not in form
        assert not private & set(re.findall("[qxzjkvw]{7}", form))
    shown = report.save(tmp_path / "shown.html", exhibits=True).read_text()
    assert "Zyxwq" in shown
    assert private & set(re.findall("[qxzjkvw]{7}", shown))


def test_words_are_shown_where_they_are_asked_for(report, tmp_path):
    assert 'class="same"' in report.save(tmp_path / "report.html").read_text()
    shown = report.save(tmp_path / "shown.html", exhibits=True).read_text()
    assert "<mark>" in shown
    assert "private data" in shown
    document = read_document(report.save(tmp_path / "shown.json", exhibits=True).read_text())
    assert document["models"][0]["text"]["exposed_authors"]["most_exposed"][0]["words"].startswith("Quillon ")


def test_marked_tokens_are_those_that_agree(report):
    passages = report.audits[0].text.passages
    assert passages
    for passage in passages:
        assert "".join(piece.text for piece in passage.source) in MAILS[passage.number]
        same = [
            character
            for piece in passage.source
            for character, _ in [(c, 0) for c in piece.text]
            if piece.same
        ]
        assert len(same) == sum(passage.agrees)
        assert passage.extracted == all(passage.agrees)
        assert passage.matched == [*passage.agrees, False].index(False)


def test_exposure_rises_with_copies_and_starts_at_its_baseline(report):
    text = report.audits[0].text
    never, once, often = text.exposure
    assert (never.copies, once.copies, often.copies) == (0, 1, 4)
    assert abs(never.mean - text.blind_bits) < 4 * never.deviation / np.sqrt(never.canaries)
    assert often.mean > never.mean + 2
    assert often.mean <= text.most_bits


def test_a_proof_for_one_text_covers_an_author_as_a_group():
    ledger = privet.Ledger(privet.AddRemove()).spend("training", privet.events.Gaussian(20.0))
    audit = _audit(ledger=ledger).audits[0]
    assert audit.epsilon_proved == privet.account(ledger).group(size=2).epsilon(delta=1e-5)
    assert any(check.name == "the claim is about authors" for check in audit.warnings)
    assert audit.standing.value == "broken"  # this model has no noise at all


@pytest.mark.slow
def test_one_forward_pass_serves_all_attacks_on_membership():
    counted = RememberedView(_model())
    privet.audit_text(counted, ByteEncoder(), MAILS, COINS, samples=0, prompt_tokens=40, passage_tokens=40)
    assert counted.asked == len(MAILS)


@pytest.mark.slow
def test_the_report_of_the_same_seed_is_the_same():
    first, second = (_audit(seed=3).audits[0] for _ in range(2))
    assert [result.leakage.auc for result in first.results] == [
        result.leakage.auc for result in second.results
    ]


@dataclass
class _Tokenizer:
    """A tokenizer that gives whatever is wanted for a text."""

    answer: object

    def encode(self, text):
        return self.answer(text)

    def decode(self, tokens):
        raise KeyError(f"private {list(tokens)}")


class _Short(nn.Module):
    """A model of 16 positions that does not say so, and whose error shows its tokens."""

    def __init__(self):
        super().__init__()
        self.inner = LSTMLanguageModel(257, width=4)

    def forward(self, tokens):
        if tokens.shape[1] > 16:
            raise RuntimeError(f"private {tokens[0].tolist()}")
        return self.inner(tokens)


def _fail(text):
    raise ValueError(f"private {text}")


_SOME = [MAILS[0]] * 119


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"texts": ["", *_SOME]}, "'texts' must hold at least one text and no empty one"),
        ({"texts": [" \n", *_SOME]}, "'texts' must hold at least one text and no empty one"),
        ({"texts": [], "members": []}, "'texts'"),
        ({"texts": [None, *_SOME]}, "'texts' must be a list of text"),
        ({"texts": [b"bytes", *_SOME]}, "'texts' must be a list of text"),
        ({"texts": "one text"}, "'texts' must be a list of text"),
        ({"texts": ["half a pair \udcff", *_SOME]}, "Read them with errors='replace'"),
        ({"public": ["half a pair \udcff"]}, "Read them with errors='replace'"),
        ({"authors": ["one"] * len(MAILS)}, "at least two authors, got one"),
        ({"authors": AUTHORS[:-1]}, "'authors' must name the author of each of 120 texts"),
        ({"authors": ["a", "b"] * 60}, "must have one coin each"),
        (
            {"encoder": _Tokenizer(lambda text: [1000] * 9)},
            "Take the tokenizer that the model was trained with",
        ),
        (
            {"encoder": _Tokenizer(lambda text: [-1] * 9)},
            "whole numbers from 0 upwards, got a number below 0",
        ),
        ({"encoder": _Tokenizer(lambda text: [1.5] * 9)}, "whole numbers from 0 upwards, got fractions"),
        ({"encoder": _Tokenizer(list)}, "whole numbers from 0 upwards, got text"),
        ({"encoder": _Tokenizer(lambda text: {"input_ids": [1]})}, "whole numbers from 0 upwards, got other"),
        ({"encoder": _Tokenizer(lambda text: [])}, "nothing of it can be predicted"),
        ({"encoder": _Tokenizer(_fail)}, "'encoder' must give the tokens of every text"),
        ({"encoder": _Tokenizer(lambda text: text.encode())}, "'encoder'"),
        ({"encoder": _Tokenizer(lambda text: list(text.encode()))}, "its decode failed with KeyError"),
        ({"encoder": object()}, "'encoder' must be an object with decode and encode"),
        ({"members": np.ones(len(MAILS))}, "'members'"),
        ({"members": [[True], [False, True]]}, "'members'"),
        ({"members": np.ones(len(MAILS), dtype=bool)}, "got no text that was left out"),
        ({"members": np.zeros(len(MAILS), dtype=bool)}, "got no text that was trained on"),
        ({"model": object()}, "'model' must be a causal language model"),
        ({"model": nn.Linear(3, 3)}, "Give a causal language model"),
        ({"model": TransformerLanguageModel(257, context=16)}, "Give longest=16: longer texts are cut there"),
        ({"model": _Short()}, "longest=… of audit_text"),
        ({"model": LSTMLanguageModel(100, width=4)}, "Take the tokenizer that the model was trained with"),
        ({"end": 400, "model": LSTMLanguageModel(257, width=4)}, "'end' must be one of the model's tokens"),
        ({"end": 3}, "'end' must be the end token of the view, 256, got 3"),
        ({"end": True}, "'end' must be a whole number"),
        ({"recipe": 3}, "'recipe' must be a TextRecipe"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_bad_input_gets_one_sentence(changes, words, model):
    given = {
        "model": model,
        "encoder": ByteEncoder(),
        "texts": MAILS,
        "members": COINS,
        "samples": 0,
        "prompt_tokens": 8,
        "passage_tokens": 8,
        **changes,
    }
    with pytest.raises(PrivetError, match=words) as refused:
        privet.audit_text(**given)
    said = str(refused.value)
    assert "\n" not in said
    assert "private" not in said
    assert not any(mail in said for mail in MAILS)


def test_logits_that_are_nan_get_one_sentence():
    model = LSTMLanguageModel(257, width=8)
    with torch.no_grad():
        model.output.bias.fill_(float("nan"))
    with pytest.raises(PrivetError, match="NaN or infinite"):
        _audit(model)


def test_logits_that_are_nan_in_long_texts_alone_get_one_sentence():
    class Overflows(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = LSTMLanguageModel(257, width=4)

        def forward(self, tokens):
            return self.inner(tokens) * (1.0 if tokens.shape[1] < 9 else float("inf"))

    with pytest.raises(PrivetError, match="NaN or infinite"):
        _audit(Overflows())


def test_a_model_may_have_more_tokens_than_its_tokenizer():
    torch.manual_seed(0)
    assert _audit(LSTMLanguageModel(400, width=4)).audits[0].text.passages
    assert ByteEncoder().decode([97, 300, 256]) == "a�"
    assert WordEncoder(("a", "b")).decode([0, 9, 3, 1]) == "a � b"


def test_a_model_without_an_end_token_is_attacked_without_sampling():
    class Bare:
        encode, decode = staticmethod(ByteEncoder().encode), staticmethod(ByteEncoder().decode)

    torch.manual_seed(0)
    report = privet.audit_text(
        LSTMLanguageModel(257, width=8), Bare(), MAILS, COINS, samples=5, prompt_tokens=8, passage_tokens=8
    )
    skipped = [check for check in report.audits[0].checks if check.name == "sampled extraction"]
    assert "no end token" in skipped[0].finding


def test_half_precision_is_summarised_in_float32():
    torch.manual_seed(0)
    model = TransformerLanguageModel(257, width=16, heads=2, layers=1)
    whole, half = (_audit(one).audits[0].text for one in (model, model.to(torch.bfloat16)))
    assert np.isfinite(half.loss_on_members)
    assert half.loss_on_members == pytest.approx(whole.loss_on_members, abs=0.05)
