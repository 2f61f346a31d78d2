"""``audit_text``: what is attacked, what is shown and what is redacted, whose claim counts, and bad input."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import privet
from privet.attacks.text import (
    ByteEncoder,
    LSTMLanguageModel,
    NGramModel,
    TransformerLanguageModel,
    encode_texts,
)
from privet.canary_formats import CanaryFormat, plant_canaries
from privet.errors import InvalidArgument, PrivetError
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


def test_words_are_redacted_unless_they_are_asked_for(report, tmp_path):
    forms = [
        report.save(tmp_path / f"report{ending}").read_text()
        for ending in (".html", ".json", ".md", ".dpia.html")
    ]
    secret = MAILS[report.audits[0].text.passages[0].number]
    for form in forms:
        assert "Quillon " not in form
        assert secret[5:12] not in form
    assert 'class="same"' in forms[0]
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
class _Shifted:
    """A tokenizer of another model: its tokens are beyond those of the model."""

    def encode(self, text):
        return [1000 + ord(letter) for letter in text]

    def decode(self, tokens):
        return "".join(chr(token - 1000) for token in tokens)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"texts": ["", *MAILS[1:]]}, "'texts' must hold at least one text and no empty one"),
        ({"texts": [], "members": []}, "'texts'"),
        ({"authors": ["one"] * len(MAILS)}, "at least two authors, got one"),
        ({"authors": AUTHORS[:-1]}, "'authors' must name the author of each of 120 texts"),
        ({"authors": ["a", "b"] * 60}, "must have one coin each"),
        ({"encoder": _Shifted()}, "Take the tokenizer that the model was trained with"),
        ({"members": np.ones(len(MAILS))}, "'members'"),
        ({"members": np.ones(len(MAILS), dtype=bool)}, "got no text that was left out"),
        ({"model": object()}, "'model' must be a causal language model"),
        ({"model": TransformerLanguageModel(257, context=16)}, "Give longest=16: longer texts are cut there"),
        ({"recipe": 3}, "'recipe' must be a TextRecipe"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_bad_input_gets_one_sentence(changes, words):
    given = {
        "model": _model(),
        "encoder": ByteEncoder(),
        "texts": MAILS,
        "members": COINS,
        "samples": 0,
        **changes,
    }
    with pytest.raises(InvalidArgument, match=words) as refused:
        privet.audit_text(**given)
    assert "\n" not in str(refused.value)


def test_logits_that_are_nan_get_one_sentence():
    model = LSTMLanguageModel(257, width=8)
    with torch.no_grad():
        model.output.bias.fill_(float("nan"))
    with pytest.raises(PrivetError, match="NaN or infinite"):
        _audit(model)


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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "llama", "gemma"])
def test_models_of_hugging_face_are_attacked(kind, tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 257, "bos_token_id": 256, "eos_token_id": 256, "pad_token_id": 0}
    wide = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    wide |= {"num_key_value_heads": 1, "max_position_embeddings": 64}
    config = {
        "gpt2": lambda: transformers.GPT2Config(n_positions=64, n_embd=16, n_layer=1, n_head=2, **sizes),
        "llama": lambda: transformers.LlamaConfig(**wide, **sizes),
        "gemma": lambda: transformers.GemmaConfig(**wide, **sizes, head_dim=8),
    }[kind]()
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    report = _audit(model, samples=4)
    assert report.audits[0].standing.value == "not detected at this power"
    document = json.loads(report.save(tmp_path / "report.json").read_text())
    assert document["models"][0]["text"]["authors"] == 60
    with pytest.raises(InvalidArgument, match="at most 64 tokens"):
        privet.audit_text(model, ByteEncoder(), [mail * 4 for mail in MAILS], COINS, samples=0)
