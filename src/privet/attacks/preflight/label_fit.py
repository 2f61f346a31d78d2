"""Whether the labels of one side fit its inputs worse than those of the other side.

Labels that were shuffled, or come from another version of the data, may have the same shares on both sides.
They do not fit the inputs, and a model shows that as if it had memorised the other side. So the label of each
record is predicted from all other records, members or not. The prediction does not see the coins; on a fair
challenge all orders of the coins are equally likely given the predictions.
"""

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

__all__ = ["compare_label_fit", "rate_labels"]

_TOGETHER = 2000  # records whose labels are predicted from each other
_RIDGE = 0.3
_FLOOR = 1e-3  # the least probability of a label
_WRONG = 0.15  # the share of wrong labels against which the test has most power
_FEW_CLASSES = 3  # up to which trees are trained too
_FEW_COLUMNS = 250
_COLUMNS = 2000


def rate_labels(inputs: Rows, labels: Labels, generator: np.random.Generator) -> Numbers:
    """How likely it is that each label is wrong, from its own prediction and without the coins.

    With probability p of the label given all other records, and share π of its class, the posterior
    probability of a wrong label is ε π/((1 − ε) p + ε π), where a share ε of labels was drawn anew. It has
    most power against such a share (Neyman & Pearson).
    """
    _, classes = np.unique(labels, return_inverse=True)
    shares = np.bincount(classes) / len(classes)
    probabilities = np.empty((len(classes), len(shares)))
    order = generator.permutation(len(classes))
    parts = np.array_split(order, -(-len(order) // _TOGETHER))
    features = _describe(inputs)
    for part in parts:
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


def compare_label_fit(wrong: Numbers, coin: Bits) -> tuple[float, float, float]:
    """The mean of ``wrong`` on both sides, members first, and the probability of such a difference by chance.

    The difference of means under random orders of the coins has mean 0 and variance s² (1/a + 1/b); it is
    normal for large sides (Hoeffding 1951), which the bounded values make fast.
    """
    members, others = int(coin.sum()), int((~coin).sum())
    first, second = float(wrong[coin].mean()), float(wrong[~coin].mean())
    variance = float(wrong.var(ddof=1)) * (1 / members + 1 / others)
    if variance <= 0:
        return first, second, 1.0
    return first, second, float(2 * ndtr(-abs(first - second) / variance**0.5))


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
