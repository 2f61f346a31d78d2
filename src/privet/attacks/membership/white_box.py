"""White-box attacks: from each layer's gradient and activations for a record.

Training drives the gradients of members towards 0, each by itself and in the mean, but not those of other
records.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from privet.arguments import whole
from privet.attacks.estimators import BoostedTrees, Classifier
from privet.attacks.membership.attack import Attack
from privet.attacks.membership.signals import check_labels, signal
from privet.errors import InvalidArgument
from privet.scores import Challenge, Records
from privet.views import Adversary, Labels, Numbers, WhiteBox

__all__ = ["GradientAlignment", "GradientNorm", "LayerClassifier", "Shadow", "layer_features", "rank_columns"]

_LEAST = 1e-30  # of a norm, before its logarithm


@final
@dataclass(frozen=True)
class GradientNorm(Attack[WhiteBox]):
    """Members have a smaller gradient.

    *Adversary*: sees the parameters; knows the record and its label; wants its membership.

    The score is −ln of the gradient's norm, over one layer, or over all of them where none is named.

    *Reference*: Nasr et al. 2019 (how the norms of members' and others' gradients differ); as an attack of
    its own, Rezaei & Liu 2021.
    """

    layer: str | None = None

    name = "gradient norm"
    sees = WhiteBox
    adversary = Adversary(
        sees="the parameters", knows="the record and its label", wants="whether a record was trained on"
    )

    def score(self, view: WhiteBox, records: Records) -> Numbers:
        norms = view.gradient_norms(records.inputs, _labels(view, records))
        if self.layer is not None:
            norms = norms[:, [_layer_index(view, self.layer)]]
        answer: Numbers = -0.5 * np.log(np.maximum((norms**2).sum(axis=1), _LEAST))
        return answer


@final
@dataclass(frozen=True, eq=False)
class GradientAlignment(Attack[WhiteBox]):
    """Members' gradients have small components along the gradients of records outside of training.

    *Adversary*: sees the parameters; knows the record, its label, and public records that were not trained
    on; wants its membership.

    In each layer the gradients of public records span a few directions along which a model still learns from
    unseen records. A record's gradient is projected on the first of them, each in units of the public
    records' size there (a Mahalanobis norm); the score is minus the mean over layers of the logarithm. A
    large gradient along a direction that is large for all records counts less, unlike in ``GradientNorm``.

    *Reference*: the gradient features of Nasr et al. 2019, with the gradients' covariance over the population
    as in the gradient likelihood ratio of Leemann et al. 2023. Deviations: that attack sees the gradients of
    training steps, and this one the finished model; directions with little variance are left out.
    """

    public: Records
    layers: Sequence[str] | None = None
    directions: int = 32

    name = "gradient alignment"
    sees = WhiteBox
    adversary = Adversary(
        sees="the parameters",
        knows="the record and its label, and public records that were not trained on",
        wants="whether a record was trained on",
    )

    def __post_init__(self) -> None:
        whole("directions", self.directions)
        if len(self.public) < 3:
            raise InvalidArgument(
                f"'public' must hold at least three records, got {len(self.public)}. Give a hundred or more."
            )

    def score(self, view: WhiteBox, records: Records) -> Numbers:
        chosen = view.layers if self.layers is None else self.layers
        known, judged = _labels(view, self.public), _labels(view, records)
        total = np.zeros(len(records))
        for layer in chosen:
            _layer_index(view, layer)
            public = view.gradients(self.public.inputs, known, layer)
            squares, turned = np.linalg.eigh(public @ public.T)  # the squared singular values, least first
            chosen_directions = (squares > 1e-10 * max(float(squares[-1]), _LEAST)) & (
                np.arange(len(squares)) >= len(squares) - self.directions
            )
            if chosen_directions.any():
                # ⟨g, u⟩ = ⟨g, G⟩ v/√λ for u = Gᵀv/√λ, and the public records' mean square along u is λ/n.
                along = (
                    _gradient_products(view, records, judged, layer, public)
                    @ turned[:, chosen_directions]
                    / squares[chosen_directions]
                )
                total -= np.log(np.maximum((along**2).mean(axis=1) * len(public), _LEAST))
        answer: Numbers = total / max(1, len(chosen))
        return answer


@final
@dataclass(frozen=True, eq=False)
class Shadow:
    """A model that the adversary trained like the target, with its members and non-members."""

    view: WhiteBox
    challenge: Challenge


@final
@dataclass(frozen=True, eq=False)
class LayerClassifier(Attack[WhiteBox]):
    """A classifier over all layers, taught by shadow models whose members are known.

    *Adversary*: sees the parameters; knows the record, its label, and shadow models trained the same way;
    wants its membership.

    The features of a record are φ, whether it is predicted correctly, and in every layer the norm of its
    gradient and the norm, mean and share of zeros of its activations. The classifier learns from the shadows'
    own coins, never from the target's. Features are ranks within each model, so that models of different
    scale are comparable. The score is the ln odds of membership.

    *Reference*: Nasr et al. 2019, the supervised attack. Deviation: summaries of each layer and boosted
    trees, where the paper learns convolutions over whole gradients; taught by shadow models, where its
    supervised attack knows part of the target's members.
    """

    shadows: Sequence[Shadow]
    classifier: Classifier = field(default_factory=BoostedTrees)

    name = "layer classifier"
    sees = WhiteBox
    is_calibrated = True
    adversary = Adversary(
        sees="the parameters",
        knows="the record and its label, and shadow models trained the same way",
        wants="whether a record was trained on",
    )

    def __post_init__(self) -> None:
        if not self.shadows:
            raise InvalidArgument("'shadows' must hold at least one model, got none. Train one or more.")

    def score(self, view: WhiteBox, records: Records) -> Numbers:
        taught, coins = [], []
        for shadow in self.shadows:
            if len(shadow.view.layers) != len(view.layers):
                raise InvalidArgument(
                    f"'shadows' must have the target's {len(view.layers)} layers, got one with "
                    f"{len(shadow.view.layers)}. Train shadow models of the same architecture."
                )
            taught.append(rank_columns(layer_features(shadow.view, shadow.challenge.records)))
            coins.append(shadow.challenge.members)
        coin = np.concatenate(coins)
        if coin.all() or not coin.any():
            raise InvalidArgument(
                "'shadows' must hold members and others, got one kind only. Keep some records out of each "
                "shadow."
            )
        return self.classifier.learn(np.concatenate(taught), coin)(
            rank_columns(layer_features(view, records))
        )


def layer_features(view: WhiteBox, records: Records) -> Numbers:
    """The features of each record in every layer: records × (2 + 4 × layers)."""
    labels = _labels(view, records)
    right = (view.labels(records.inputs) == labels).astype(np.float64)
    columns = [signal(view, records), right]
    columns.extend(view.gradient_norms(records.inputs, labels).T)
    for layer in view.layers:
        active = view.activations(records.inputs, layer)
        columns.append(np.sqrt((active**2).sum(axis=1)))
        columns.append(active.mean(axis=1))
        columns.append((active <= 0).mean(axis=1))
    return np.stack(columns, axis=1)


def rank_columns(features: Numbers) -> Numbers:
    """Each column as its empirical distribution function; ties get the same value."""
    columns = []
    for column in features.T:
        distinct, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
        middle = np.cumsum(counts) - counts / 2
        columns.append(middle[inverse] / len(column) if len(distinct) > 1 else np.full(len(column), 0.5))
    return np.stack(columns, axis=1)


def _gradient_products(
    view: WhiteBox, records: Records, labels: Labels, layer: str, public: Numbers
) -> Numbers:
    """⟨gradient, public gradient⟩, records × public.

    A few records at a time, because a gradient is as large as its layer.
    """
    step = max(1, 2**24 // max(1, public.shape[1]))
    return np.concatenate(
        [
            view.gradients(records.inputs[start : start + step], labels[start : start + step], layer)
            @ public.T
            for start in range(0, len(records), step)
        ]
    )


def _labels(view: WhiteBox, records: Records) -> Labels:
    """The true labels, checked against the number of classes, which one query shows."""
    return check_labels(records, view.log_confidences(records.inputs[:1]).shape[1])


def _layer_index(view: WhiteBox, layer: str) -> int:
    if layer not in view.layers:
        raise InvalidArgument(
            f"'layer' must be one of the model's layers, got {layer!r}. Take one of {', '.join(view.layers)}."
        )
    return view.layers.index(layer)
