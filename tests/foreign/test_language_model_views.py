"""Token views of causal models of transformers: their own loss, end token and context."""

import numpy as np
import pytest
import torch

from privet.attacks.text import TorchTokenView
from privet.errors import InvalidArgument


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
