"""Token views of causal models of transformers: their own loss, end token and context."""

import numpy as np
import pytest
import torch

from privet.attacks.text import (
    CanaryExposure,
    Decoding,
    PromptedExtraction,
    TorchTokenView,
    find_passages,
    generate,
)
from privet.canary_formats import CanaryFormat, plant_canaries
from privet.errors import InvalidArgument

WORDS, CONTEXT = 37, 24
SIZES = {
    "vocab_size": WORDS, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "max_position_embeddings": CONTEXT,
}  # fmt: skip
MODELS = {
    "Llama, no begin and no end": ("Llama", {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}),
    "Llama, tied, two ends": ("Llama", {"tie_word_embeddings": True, "num_key_value_heads": 1, "eos_token_id": [2, 3]}),
    "Gemma": ("Gemma", {"num_key_value_heads": 1, "head_dim": 8}),
    "Gemma 2, short window": ("Gemma2", {"num_key_value_heads": 1, "head_dim": 8, "sliding_window": 4}),
    "Mistral, short window": ("Mistral", {"num_key_value_heads": 1, "sliding_window": 4}),
    "GPT-NeoX": ("GPTNeoX", {}),
}  # fmt: skip


def make(packages, name):
    kind, extra = MODELS[name]
    transformers = packages.transformers
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return getattr(transformers, f"{kind}ForCausalLM")(
            getattr(transformers, f"{kind}Config")(**(SIZES | extra))
        )


def draw_sequences(count=12):
    """From the shortest to the longest that the model takes."""
    draw = np.random.default_rng(0)
    lengths = [2, CONTEXT, *draw.integers(2, CONTEXT + 1, size=count)]
    return [draw.integers(0, WORDS, size=length) for length in lengths]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_gives_its_own_loss(packages, name, dtype):
    """The oracle is the model's own loss for labels, one text at a time and without padding."""
    model, given = make(packages, name).to(dtype), draw_sequences()
    view = TorchTokenView(model, batch_tokens=100)
    assert (view.vocabulary, view.context) == (WORDS, CONTEXT)
    found = view.logprobs(given)
    model.eval()
    for place, sequence in enumerate(given):
        tokens = torch.from_numpy(sequence[None])
        with torch.no_grad():
            loss = float(model(tokens, labels=tokens).loss)
        # In half precision a padded batch may round otherwise: by a few units in the last place of a logit.
        rounding = 1e-5 if dtype == torch.float32 else 8 * torch.finfo(dtype).eps
        assert -found.of(place).logprobs.mean() == pytest.approx(loss, abs=rounding)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["Llama, no begin and no end", "Llama, tied, two ends", "Gemma 2, short window"]
)
def test_every_attack_takes_them(packages, name):
    view = TorchTokenView(make(packages, name), batch_tokens=500)
    given = [one for one in draw_sequences(20) if len(one) >= 12]
    passages = find_passages(given, prompt=4, length=6, from_start=True)
    members = np.arange(len(passages.source)) % 2 == 0
    PromptedExtraction(100, 0.5, Decoding(top_k=5)).run(view, passages, members)
    format = CanaryFormat(np.array([1, 7, 8]), (np.arange(10, 20),) * 2)
    planted = plant_canaries(format, count=6, copies=(1,), controls=10, generator=np.random.default_rng(0))
    assert CanaryExposure().run(view, planted).found.exposures.estimates.shape == (16,)
    written = generate(
        view, [np.array([1, 2, 3])], length=5, decoding=Decoding(), generator=np.random.default_rng(0)
    )
    assert len(written[0]) <= 5


@pytest.mark.slow
def test_an_encoder_and_decoder_is_refused(packages):
    transformers = packages.transformers
    config = transformers.T5Config(vocab_size=23, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    with pytest.raises(InvalidArgument, match="decoder needs a second text"):
        TorchTokenView(transformers.T5ForConditionalGeneration(config))


@pytest.mark.slow
def test_gpt2_gives_its_own_loss(packages):
    transformers = packages.transformers
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=23, n_positions=16, n_embd=8, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2
    )
    model = transformers.GPT2LMHeadModel(config)
    draw = np.random.default_rng(0)
    given = [draw.integers(0, 23, size=draw.integers(2, 16)) for _ in range(20)]
    view = TorchTokenView(model, batch_tokens=64)
    assert (view.vocabulary, view.end, view.context) == (23, 2, 16)
    found = view.logprobs(given)
    model.eval()
    for place, sequence in enumerate(given):
        tokens = torch.from_numpy(sequence[None])
        with torch.no_grad():
            loss = float(model(tokens, labels=tokens).loss)
        assert -found.of(place).logprobs.mean() == pytest.approx(loss, abs=1e-5)


@pytest.mark.slow
def test_bert_reads_ahead_and_is_refused(packages):
    transformers = packages.transformers
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=23, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    with pytest.raises(InvalidArgument, match="'model' must be causal"):
        TorchTokenView(transformers.BertForMaskedLM(config))
