"""Whether the labels of one side fit its inputs worse than those of the other side.

Labels that were shuffled, or come from another version of the data, may have the same shares on both sides.
They do not fit the inputs, and a model shows that as if it had memorised the other side. So the label of each
record is predicted from all other records, members or not. The prediction does not see the coins; on a fair
challenge all orders of the coins are equally likely given the predictions.

Where the two sides name their classes differently, both fit by themselves. So labels are also predicted from
each side alone, on one half of the records, and the other half is asked which side's labels it has.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import ndtr

from privet.attacks.estimators import out_of_fold_probabilities
from privet.attacks.preflight.features import Features, standardize, to_numbers
from privet.attacks.preflight.images import orientation_histograms, read_images, small_copies
from privet.attacks.preflight.row_summaries import read_columns
from privet.errors import MissingPackage
from privet.scores import Bits
from privet.views import Labels, Numbers, Rows

__all__ = ["LabelFit", "compare_label_fit"]

_TOGETHER = 2000  # records whose labels are predicted from each other
_RIDGE = 0.3
_FLOOR = 1e-3  # the least probability of a label
_WRONG = 0.15  # the share of wrong labels against which the test has most power
_FEW_CLASSES = 3  # up to which trees are trained too
_FEW_COLUMNS = 250
_COLUMNS = 2000


class LabelFit(NamedTuple):
    """How many labels look wrong on each side, and how likely two differences are on a fair challenge: of
    these shares, and of the labellings of both sides.
    """

    of_members: float
    of_others: float
    p_value: float
    labelling_p_value: float


def compare_label_fit(inputs: Rows, labels: Labels, coin: Bits, generator: np.random.Generator) -> LabelFit:
    """Both tests, each by the difference of means over the sides.

    Under random orders of the coins it has mean 0 and variance s² (1/a + 1/b); it is normal for large sides
    (Hoeffding 1951), which the bounded values make fast. The second test has two halves that learn from each
    other, and so takes the mean of their two deviates with the deviation of one.
    """
    _, classes = np.unique(labels, return_inverse=True)
    features = _describe(inputs)
    wrong = _rate_labels(inputs, features, classes, generator)
    deviates = _compare_labellings(features, classes, coin, generator)
    return LabelFit(
        float(wrong[coin].mean()),
        float(wrong[~coin].mean()),
        2 * float(ndtr(-abs(_deviate(wrong, coin)))),
        float(ndtr(-np.mean(deviates))),
    )


def _deviate(values: Numbers, coin: Bits) -> float:
    """The difference of means in deviations over random orders of the coins."""
    variance = float(values.var(ddof=1)) * (1 / int(coin.sum()) + 1 / int((~coin).sum()))
    return float(values[coin].mean() - values[~coin].mean()) / variance**0.5 if variance > 0 else 0.0


def _rate_labels(
    inputs: Rows, features: list[Features], classes: NDArray[np.intp], generator: np.random.Generator
) -> Numbers:
    """How likely it is that each label is wrong, from its own prediction and without the coins.

    With probability p of the label given all other records, and share π of its class, the posterior
    probability of a wrong label is ε π/((1 − ε) p + ε π), where a share ε of labels was drawn anew. It has
    most power against such a share (Neyman & Pearson).
    """
    shares = np.bincount(classes) / len(classes)
    probabilities = np.empty((len(classes), len(shares)))
    order = generator.permutation(len(classes))
    for part in np.array_split(order, -(-len(order) // _TOGETHER)):
        own = [feature[part] for feature in features]
        probabilities[part] = _leave_one_out(_kernel(own), classes[part], shares)
    columns = read_columns(inputs) if len(shares) <= _FEW_CLASSES and read_images(inputs) is None else None
    if columns is not None and 1 < columns.shape[1] <= _FEW_COLUMNS:
        try:
            trees = out_of_fold_probabilities(columns.astype(np.float64), classes, generator)
            probabilities = (probabilities + trees) / 2
        except MissingPackage:
            pass  # the kernel alone has less power, and the same false alarms
    p = np.maximum(probabilities, _FLOOR)
    given = (p / p.sum(axis=1, keepdims=True))[np.arange(len(classes)), classes]
    prior = shares[classes]
    wrong: Numbers = _WRONG * prior / ((1 - _WRONG) * given + _WRONG * prior)
    return wrong


def _compare_labellings(
    features: list[Features], classes: NDArray[np.intp], coin: Bits, generator: np.random.Generator
) -> list[float]:
    """For each half: how much more its members' labels fit a prediction from the other half's members than
    one from the other half's non-members.
    """
    order = generator.permutation(len(classes))[:_TOGETHER]
    own_classes, own_coin = classes[order], coin[order]
    kernel = _kernel([feature[order] for feature in features])
    half = np.zeros(len(order), dtype=np.bool_)
    for side in (own_coin, ~own_coin):
        half[np.flatnonzero(side)[::2]] = True
    wanted = np.eye(int(classes.max()) + 1)[own_classes]
    deviates = []
    for learned, asked in ((half, ~half), (~half, half)):
        fits = []
        for side in (own_coin, ~own_coin):
            taught = learned & side
            square = kernel[np.ix_(taught, taught)]
            square[np.diag_indices(len(square))] += _RIDGE
            shares = wanted[taught].mean(axis=0)
            weights = np.linalg.solve(square, wanted[taught] - shares)
            predicted = kernel[np.ix_(asked, taught)] @ weights + shares
            fits.append(np.clip((predicted * wanted[asked]).sum(axis=1), 0, 1))
        deviates.append(_deviate(fits[0] - fits[1], own_coin[asked]))
    return deviates


def _describe(inputs: Rows) -> list[Features]:
    images = read_images(inputs)
    if images is not None:
        return [orientation_histograms(images), small_copies(images)]
    table = to_numbers(inputs)
    spread = np.ptp(table, axis=0)
    table = table[:, spread > 0]
    if table.shape[1] > _COLUMNS:
        table = table[:, np.argsort(-table.var(axis=0), kind="stable")[:_COLUMNS]]
    if not table.shape[1]:
        return [np.zeros((len(inputs), 1), dtype=np.float32)]
    # Marks of 0 and 1 keep their scale: a rare mark must not outweigh all others.
    marks = bool((np.ptp(table, axis=0) == 1).all() and ((table == 0) | (table == 1)).all())
    return [table - table.mean(axis=0) if marks else np.clip(standardize(table), -5, 5)]


def _kernel(features: list[Features]) -> NDArray[np.float64]:
    """A product of Gaussian kernels, each as wide as a usual distance."""
    product = np.ones((len(features[0]), len(features[0])))
    for feature in features:
        squares = np.einsum("ij,ij->i", feature, feature)
        distances = squares[:, None] + squares - 2 * (feature @ feature.T)
        np.maximum(distances, 0, out=distances)
        usual = float(np.median(distances[:: max(1, len(distances) // 100)]))
        if usual > 0:
            product *= np.exp(distances / -usual)
    return product


def _leave_one_out(kernel: NDArray[np.float64], classes: NDArray[np.intp], shares: Numbers) -> Numbers:
    """For each record the prediction by kernel ridge regression on all other records.

    Reference: Rifkin & Lippert 2007: with A = K + λI the prediction left out is y − (A⁻¹y)/diag(A⁻¹).
    """
    wanted = np.eye(len(shares))[classes] - shares
    kernel[np.diag_indices(len(kernel))] += _RIDGE
    factor, _ = lapack.dpotrf(kernel, lower=1)
    inverse, _ = lapack.dpotri(factor, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    left_out: Numbers = wanted - (inverse @ wanted) / np.diag(inverse)[:, None] + shares
    return left_out
