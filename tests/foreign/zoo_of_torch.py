"""Models as people write them in plain torch, with their data and their loss.

``MODELS`` maps a name to a function that makes (model, data, loss, alone). ``alone(outputs, target)`` is the loss of a batch
of one example, written once more; None means that of the loss itself.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, TensorDataset

COUNT, LABELS = 16, 3


def labels(classes=LABELS):
    return torch.randint(0, classes, (COUNT,))


class TextClassifier(nn.Module):
    """Embeddings, positions, ``nn.TransformerEncoder`` with a padding mask, and a mean over the tokens."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(30, 16, padding_idx=0), nn.Embedding(12, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, LABELS)

    def forward(self, tokens):
        keep = tokens != 0
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        x = self.encoder(x, src_key_padding_mask=~keep)
        return self.head((x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True))


class PackedLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, LABELS)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.words(tokens), lengths, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=tokens.shape[1])
        return self.head(out.sum(1))


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(3, 8, num_layers=2, batch_first=True), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


class UNet(nn.Module):
    def __init__(self, up="transpose"):
        super().__init__()
        self.down1, self.down2 = self.block(3, 8), self.block(8, 16)
        self.up = (
            nn.ConvTranspose2d(16, 8, 2, stride=2)
            if up == "transpose"
            else nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(16, 8, 1))
        )
        self.last, self.head = self.block(16, 8), nn.Conv2d(8, LABELS, 1)

    def block(self, inner, outer):
        return nn.Sequential(nn.Conv2d(inner, outer, 3, padding=1), nn.GroupNorm(2, outer), nn.ReLU())

    def forward(self, x):
        fine = self.down1(x)
        coarse = self.down2(F.max_pool2d(fine, 2))
        return self.head(self.last(torch.cat((fine, self.up(coarse)), 1)))


class WideAndDeep(nn.Module):
    """Keyword inputs of several types."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, 4) for n in (5, 7)])
        self.wide, self.deep = nn.Linear(4, 1), nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, numbers, categories):
        found = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        return (self.wide(numbers) + self.deep(torch.cat((numbers, *found), 1))).squeeze(1)


class VAE(nn.Module):
    """Returns a tuple; without its noise, so that a loop sees the same gradient."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 8), nn.Linear(4, 6)

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return self.decoder(mean), mean, log_variance


def elbo(outputs, targets):
    rebuilt, mean, log_variance = outputs
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1)
    return (rebuilt - targets).square().sum(1) + divergence


class Twins(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.body, self.count = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)), count

    def forward(self, *inputs):
        return tuple(self.body(x) for x in inputs[: self.count])


class MeanAndVariance(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.variance = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        return self.mean(x), F.softplus(self.variance(x))


class Speech(nn.Module):
    """[examples, time, features] to log-probabilities [time, examples, letters]."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv1d(5, 8, 3, padding=1), nn.Linear(8, 6)

    def forward(self, x):
        hidden = torch.relu(self.conv(x.transpose(1, 2)))
        return self.head(hidden.permute(2, 0, 1)).log_softmax(2)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 2)
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)) for _ in "ab"]
        )

    def forward(self, x):
        shares = self.gate(x).softmax(1)
        return sum(shares[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))


class Returns(nn.Module):
    """Returns a dictionary, as models for segmentation of torchvision do."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return {"out": self.model(x)}


def mlp(*sizes):
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def tokens(length=6):
    return torch.randint(1, 30, (COUNT, length))


def ctc_alone(outputs, target):
    letters = target[target > 0]
    return F.ctc_loss(outputs, letters[None], [outputs.shape[0]], [len(letters)])


def spoken():
    words = torch.randint(1, 6, (COUNT, 3))
    words[::2, 2] = 0
    return words


X = (COUNT, 6)
MODELS = {
    "logistic regression": lambda: (
        nn.Linear(6, 1),
        (torch.randn(X), labels(2)),
        None,
        lambda o, t: F.binary_cross_entropy_with_logits(o[:, 0], t.to(o)),
    ),
    "MLP, loader": lambda: (mlp(6, 8, 3), DataLoader(TensorDataset(torch.randn(X), labels()), 4), None, None),
    "MLP, words as labels": lambda: (
        mlp(6, 8, 2),
        (torch.randn(X), ["no", "yes"] * (COUNT // 2)),
        None,
        None,
    ),
    "MLP, one-hot labels": lambda: (
        mlp(6, 8, 3),
        (torch.randn(X), F.one_hot(labels(), 3)),
        nn.CrossEntropyLoss(),
        None,
    ),
    "MLP, class weights": lambda: (
        mlp(6, 8, 3),
        (torch.randn(X), labels()),
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]).double(), label_smoothing=0.1),
        lambda o, t: F.cross_entropy(
            o, t, weight=torch.tensor([1.0, 2.0, 3.0]).double(), label_smoothing=0.1, reduction="sum"
        ),
    ),
    "MLP, several labels": lambda: (
        mlp(6, 8, 4),
        (torch.randn(X), torch.rand(COUNT, 4).round()),
        nn.BCEWithLogitsLoss(pos_weight=torch.full((4,), 2.0).double()),
        None,
    ),
    "regression": lambda: (
        mlp(6, 8, 1),
        (torch.randn(X), torch.randn(COUNT)),
        nn.HuberLoss(),
        lambda o, t: F.huber_loss(o[:, 0], t),
    ),
    "counts": lambda: (
        mlp(6, 8, 1),
        (torch.randn(X), torch.randint(0, 5, (COUNT,))),
        nn.PoissonNLLLoss(),
        lambda o, t: F.poisson_nll_loss(o[:, 0], t),
    ),
    "mean and variance": lambda: (
        MeanAndVariance(),
        (torch.randn(COUNT, 4), torch.randn(COUNT, 2)),
        nn.GaussianNLLLoss(),
        lambda o, t: F.gaussian_nll_loss(o[0], t, o[1]),
    ),
    "autoencoder": lambda: (mlp(6, 3, 6), TensorDataset(torch.randn(X)), nn.MSELoss(), None),
    "VAE": lambda: (VAE(), TensorDataset(torch.randn(X)), elbo, None),
    "pairs": lambda: (
        Twins(2),
        (torch.randn(X), torch.randn(X), 2 * labels(2) - 1),
        nn.CosineEmbeddingLoss(),
        lambda o, t: F.cosine_embedding_loss(*o, t),
    ),
    "triplets": lambda: (
        Twins(3),
        (torch.randn(X), torch.randn(X), torch.randn(X), labels()),
        nn.TripletMarginLoss(),
        lambda o, t: F.triplet_margin_loss(*o),
    ),
    "TransformerEncoder": lambda: (TextClassifier(), (tokens(), labels()), None, None),
    "packed LSTM": lambda: (
        PackedLSTM(),
        {"tokens": tokens(), "lengths": torch.randint(2, 7, (COUNT,)), "labels": labels()},
        None,
        None,
    ),
    "GRU": lambda: (Forecaster(), (torch.randn(COUNT, 5, 3), torch.randn(COUNT, 1)), F.mse_loss, None),
    "Transformer, ragged": lambda: (
        TextClassifier(),
        ([torch.randint(1, 30, (n,)) for n in torch.randint(2, 8, (COUNT,)).tolist()], labels()),
        None,
        None,
    ),
    "CNN": lambda: (
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)),
        [(torch.randn(1, 8, 8), int(label)) for label in labels()],
        None,
        None,
    ),
    "U-Net": lambda: (
        UNet(),
        (torch.randn(COUNT, 3, 8, 8), torch.randint(0, 3, (COUNT, 8, 8))),
        nn.CrossEntropyLoss(ignore_index=2),
        None,
    ),
    "U-Net, dictionary": lambda: (
        Returns(UNet("upsample")),
        (torch.randn(COUNT, 3, 8, 8), torch.randint(0, 3, (COUNT, 8, 8))),
        nn.CrossEntropyLoss(),
        lambda o, t: F.cross_entropy(o["out"], t),
    ),
    "wide and deep": lambda: (
        WideAndDeep(),
        {
            "numbers": torch.randn(COUNT, 4).double(),
            "categories": torch.randint(0, 5, (COUNT, 2)),
            "label": labels(2),
        },
        nn.BCEWithLogitsLoss(),
        lambda o, t: F.binary_cross_entropy_with_logits(o, t.double()),
    ),
    "speech": lambda: (Speech(), (torch.randn(COUNT, 9, 5), spoken()), nn.CTCLoss(), ctc_alone),
    "experts": lambda: (Experts(), (torch.randn(X), labels()), F.cross_entropy, None),
    "weight norm": lambda: (
        nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3)),
        (torch.randn(X), labels()),
        nn.NLLLoss(),
        None,
    ),
    "squares of all pairs": lambda: (
        Forecaster(),
        (torch.randn(COUNT, 5, 3), torch.randn(COUNT)),
        F.mse_loss,
        None,
    ),
    "batch norm": lambda: (
        nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)),
        (torch.randn(X), labels()),
        None,
        None,
    ),
    "mean of the batch": lambda: (Centred(), (torch.randn(X), labels()), None, None),
    "loss over the tokens of a batch": lambda: (
        nn.Sequential(nn.Embedding(30, 3)),
        (tokens(), torch.randint(0, 3, (COUNT, 6))),
        lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten(), ignore_index=0),
        None,
    ),
}
REFUSED = {
    "squares of all pairs": "mean or a sum over examples",  # [n, 1] − [n] broadcasts to [n, n]
    "batch norm": "BatchNorm",
    "mean of the batch": "one example at a time",
    "loss over the tokens of a batch": "mean or a sum over examples",
}


class Centred(nn.Module):
    """Subtracts the mean of the batch."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(x - x.mean(0))
