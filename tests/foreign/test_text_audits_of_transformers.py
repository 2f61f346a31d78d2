"""``privet.audit_text`` on causal models and tokenizers of Hugging Face as they are: random weights, offline."""

import json

import numpy as np
import pytest
import torch

import privet
from privet.attacks.text import ByteEncoder
from privet.errors import InvalidArgument

pytestmark = pytest.mark.slow

MAILS = [f"dear {number * 7919 % 1000003}, your code is {number * 104729 % 999983}" for number in range(120)]
AUTHORS = [f"Quillon {number // 2}" for number in range(120)]
COINS = np.repeat(np.random.default_rng(0).integers(0, 2, 60).astype(bool), 2)
_WIDE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
_SIZES = {"vocab_size": 300, "bos_token_id": 256, "eos_token_id": 256, "pad_token_id": 0}


def _make(transformers, kind, **changes):
    """A model of the kind with random weights, 300 tokens and 64 positions."""
    sizes = {**_SIZES, **changes}
    positions = {"max_position_embeddings": sizes.pop("positions", 64)}
    config = {
        "gpt2": lambda: transformers.GPT2Config(
            n_embd=16, n_layer=1, n_head=2, n_positions=positions["max_position_embeddings"], **sizes
        ),
        "llama": lambda: transformers.LlamaConfig(num_key_value_heads=1, **_WIDE, **positions, **sizes),
        "gemma": lambda: transformers.GemmaConfig(
            num_key_value_heads=1, head_dim=8, **_WIDE, **positions, **sizes
        ),
        "neox": lambda: transformers.GPTNeoXConfig(**_WIDE, **positions, **sizes),
    }[kind]()
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config)


def _audit(model, encoder, **changes):
    options = {"samples": 4, "prompt_tokens": 8, "passage_tokens": 8, "authors": AUTHORS, **changes}
    return privet.audit_text(model, encoder, MAILS, COINS, **options)


def _tokenizer(tokenizers):
    """A BPE tokenizer of public words; its tokens are below 290."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    letters = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=290, special_tokens=["<s>", "</s>"], initial_alphabet=letters, show_progress=False
    )
    made.train_from_iterator(["public words 0123456789"], trainer)
    return made


@pytest.mark.parametrize("kind", ["gpt2", "llama", "gemma", "neox"])
def test_a_model_as_it_is_is_attacked_and_leaks_nothing(packages, kind, tmp_path):
    report = _audit(_make(packages.transformers, kind), ByteEncoder())
    assert report.audits[0].standing.value == "not detected at this power"
    assert [each.name for each in report.audits[0].recoveries][-1] == "sampled extraction"
    document = json.loads(report.save(tmp_path / "report.json").read_text())
    assert document["models"][0]["text"]["authors"] == 60


def test_a_model_that_was_trained_on_members_leaks(packages):
    model = _make(packages.transformers, "gpt2").train()
    rows = torch.tensor(
        [[256, *mail.encode()[:32], 256] for mail, coin in zip(MAILS, COINS, strict=True) if coin and len(mail) > 31]
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        model(rows, labels=rows).loss.backward()
        optimizer.step()
    audit = _audit(model, ByteEncoder()).audits[0]
    assert audit.detected
    assert audit.text.loss_on_members < audit.text.loss_on_others - 0.2
    assert model.training  # it is given back as it was


@pytest.mark.parametrize("fast", [True, False])
def test_their_tokenizers_are_taken_as_they_are(packages, fast):
    """Those of ``transformers`` give lists and name their end token; those of ``tokenizers`` give ``ids``."""
    encoder = _tokenizer(packages.tokenizers)
    if fast:
        encoder = packages.transformers.PreTrainedTokenizerFast(
            tokenizer_object=encoder, bos_token="<s>", eos_token="</s>"
        )
    audit = _audit(_make(packages.transformers, "llama", eos_token_id=1, bos_token_id=0), encoder).audits[0]
    for passage in audit.text.passages:
        assert "".join(piece.text for piece in passage.source) in MAILS[passage.number]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_half_precision_gives_nearly_the_same(packages, kind, dtype):
    model = _make(packages.transformers, kind)
    whole = _audit(model, ByteEncoder()).audits[0].text
    half = _audit(model.to(dtype), ByteEncoder()).audits[0].text
    assert half.loss_on_members == pytest.approx(whole.loss_on_members, abs=0.02)


def test_a_model_without_an_end_token_is_not_sampled(packages):
    class Bare:
        encode, decode = staticmethod(ByteEncoder().encode), staticmethod(ByteEncoder().decode)

    model = _make(packages.transformers, "gpt2", eos_token_id=None, bos_token_id=None)
    audit = _audit(model, Bare()).audits[0]
    assert [each.name for each in audit.recoveries] == ["greedy extraction", "extraction in 100 tries"]
    assert any("no end token" in check.finding for check in audit.checks)


def test_what_does_not_match_is_refused_in_one_sentence(packages):
    transformers = packages.transformers
    bert = transformers.BertForMaskedLM(
        transformers.BertConfig(vocab_size=300, max_position_embeddings=64, **_WIDE)
    )
    headless = transformers.GPT2Model(transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, **_SIZES))
    for model, words in (
        (_make(transformers, "gpt2", positions=16), "at most 16 tokens, which is the model's context"),
        (_make(transformers, "llama", vocab_size=200, eos_token_id=1, bos_token_id=1), "Take the tokenizer"),
        (bert, "'model' must be causal"),
        (headless, "'model' must give logits"),
    ):
        with pytest.raises(InvalidArgument, match=words) as refused:
            _audit(model, ByteEncoder())
        assert "\n" not in str(refused.value)
    assert _audit(_make(transformers, "gpt2", positions=16), ByteEncoder(), longest=16).audits
