"""Audits of text models of transformers: token numbers with a mask, and outputs that hold ``logits``."""

import numpy as np
import pytest
import torch

import privet
from privet.attacks.shadows import Adam, TorchRecipe
from privet.record_inputs import gather_inputs


@pytest.mark.slow
def test_a_language_model_with_a_mask_is_audited(packages):
    """BERT of Hugging Face with random weights, trained a few steps: token numbers, a mask, ``logits``."""
    transformers = packages.transformers
    random = np.random.default_rng(3)
    config = transformers.BertConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        num_labels=3, max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    lengths = random.integers(4, 13, (96, 1))
    mask = (np.arange(12) < lengths).astype(np.int64)
    columns = {"input_ids": random.integers(1, 60, (96, 12)) * mask, "attention_mask": mask}
    labels = random.integers(0, 3, 96)
    recipe = TorchRecipe(
        model=lambda: transformers.BertForSequenceClassification(config),
        epochs=30,
        batch_size=16,
        learning_rate=0.005,
        optimizer=Adam(),
    )
    model = recipe.fit(gather_inputs(columns)[:48], labels[:48], 1).module

    def side(part):
        return {name: torch.from_numpy(array[part]) for name, array in (columns | {"labels": labels}).items()}

    report = privet.audit(
        model,
        side(slice(48)),
        side(slice(48, 96)),
        recipe=recipe,
        references=2,
        attacks=["loss", "lira", "gradient-norm"],
        progress=False,
    )
    (audit,) = report.audits
    assert audit.train_accuracy > 0.9
    assert min(result.leakage.auc.value for result in audit.results) > 0.7
