"""Canaries of text in a run: written like the data, scored by their secret, judged by the coin."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import privet
from privet.auditing import OneRun
from privet.canary_formats import CanaryFormat
from privet.errors import InvalidArgument
from privet.randomness import SeededNoise
from privet.training import Canaries, TextCanaries, with_canaries

V, LENGTH = 14, 12
FORMAT = CanaryFormat(np.array([10, 11, 12]), (np.arange(10),) * 4, np.array([13]))


class Model(nn.Module):
    def __init__(self, *, transposed=False, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.embedding, self.lstm, self.output = (
            nn.Embedding(V, 16),
            nn.LSTM(16, 32, batch_first=True),
            nn.Linear(32, V),
        )
        self.transposed = transposed

    def forward(self, tokens):
        logits = self.output(self.lstm(self.embedding(tokens))[0])
        return logits.transpose(1, 2) if self.transposed else logits


def token_loss(outputs, targets):
    return cross_entropy(outputs.transpose(1, 2), targets, ignore_index=-100, reduction="none").mean(dim=1)


def corpus(count=120, seed=0):
    tokens = torch.from_numpy(np.random.default_rng(seed).integers(0, V, size=(count, LENGTH + 1)))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def test_canaries_are_written_like_the_data():
    dataset = with_canaries(corpus(), Canaries(40, TextCanaries(FORMAT), seed=3))
    tokens, targets = dataset.data
    assert len(tokens) == 120 + dataset.included
    row, told = tokens[-1].tolist(), targets[-1].tolist()
    assert row[:3] == [10, 11, 12]
    assert told[:2] == [11, 12]
    assert row[3:7] == told[2:6]  # the secret; the target of a place is the next token
    assert told[6:] == [13] + [-100] * 5
    assert row[7:] == [0] * 5


def test_models_of_hugging_face_get_a_mask_and_shift_themselves():
    tokens = corpus()[0]
    data = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}

    class Keyword(Model):
        def forward(self, input_ids, attention_mask=None, labels=None):
            return super().forward(input_ids)

    kind = TextCanaries(FORMAT, shifted=False)
    trained = privet.train(
        Keyword(), data, epsilon=8, delta=1e-4, epochs=1, lot_size=30, noise=SeededNoise(0), loss=token_loss,
        canaries=Canaries(40, kind, seed=1),
    )  # fmt: skip
    assert len(trained.canaries.scores.values) == 40
    columns = with_canaries(data, Canaries(40, kind, seed=1)).data
    assert [column[-1].tolist()[:8] for column in columns][1] == [1] * 8
    assert columns[1][-1].tolist()[8:] == [0] * 4
    assert columns[0][-1].tolist()[:8] == columns[2][-1].tolist()[:8]


@pytest.mark.parametrize("transposed", [False, True])
def test_the_score_is_the_probability_of_the_secret_among_all(transposed):
    dataset = with_canaries(corpus(), Canaries(40, TextCanaries(FORMAT), seed=3))
    model = Model(transposed=transposed).train()
    values = dataset.scores(model).values
    assert model.training
    secret = dataset._secrets[5]
    text = torch.from_numpy(FORMAT.write(secret[None])[0])
    with torch.no_grad():
        logs = Model().eval()(text[None])[0].double()
    truth = sum(
        float(logs[2 + place, token] - torch.logsumexp(logs[2 + place, :10], 0))
        for place, token in enumerate(secret)
    )
    assert values[5] == pytest.approx(truth, abs=1e-5)
    # Secrets of one format: e^score sums to 1 over the space, so the mean over uniform secrets is about ln 1/|R|.
    assert np.mean(values) == pytest.approx(-4 * math.log(10), abs=1.0)


def test_a_model_that_learns_by_heart_gives_its_canaries_away():
    dataset = with_canaries(corpus(20), Canaries(64, TextCanaries(FORMAT), seed=0))
    model = Model()
    dataset.begin(model)
    tokens, targets = dataset.data
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(150):
        optimizer.zero_grad()
        token_loss(model(tokens), targets).mean().backward()
        optimizer.step()
    scores = dataset.scores(model)
    inside, outside = scores.values[scores.members], scores.values[~scores.members]
    assert np.mean(inside[:, None] > outside[None, :]) > 0.95
    assert OneRun().epsilon(scores, delta=1e-5) > 0.5


def test_a_private_run_is_audited_and_pays_nothing():
    settings = {
        "epsilon": 2,
        "delta": 1e-4,
        "epochs": 2,
        "lot_size": 30,
        "noise": SeededNoise(0),
        "loss": token_loss,
    }
    plain = privet.train(Model(), corpus(), **settings)
    audited = privet.train(Model(), corpus(), canaries=Canaries(40, TextCanaries(FORMAT), seed=0), **settings)
    assert audited.epsilon(delta=1e-4) == plain.epsilon(delta=1e-4)
    finding = OneRun().test(audited.canaries.scores, audited.guarantee(), delta=1e-4)
    assert finding.measured.value <= audited.epsilon(delta=1e-4)
    assert audited.canaries.kind == "TextCanaries(4 places, 13.3 bits)"
    assert audited.canaries.cost.records_lost == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((torch.randn(50, 3), torch.zeros(50, dtype=torch.int64)), "'canaries' of text need tokens"),
        (tuple(column[:, :6] for column in corpus()), "'format' must fit into the 6 tokens"),
        ((corpus()[0], corpus()[1][:, 0]), "'canaries' of text need tokens"),
        ((*corpus(), corpus()[1]), "the data has other columns"),
    ],
)
def test_data_that_are_no_tokens_are_refused(data, message):
    with pytest.raises(InvalidArgument, match=message):
        with_canaries(data, Canaries(40, TextCanaries(FORMAT), seed=0))


def test_models_without_a_logit_for_every_token_are_refused():
    dataset = with_canaries(corpus(), Canaries(40, TextCanaries(FORMAT), seed=0))
    with pytest.raises(InvalidArgument, match="'model' must give logits for every token"):
        dataset.scores(nn.Sequential(nn.Embedding(V, 3), nn.Flatten(), nn.Linear(3 * LENGTH, 2)))
