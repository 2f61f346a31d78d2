"""What a fitted model is worth on rows that it has not seen."""

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score


@dataclass(frozen=True)
class Quality:
    """Of a classifier: accuracy, area under the ROC curve, share of rows that it calls positive. Of a regression: R²."""

    accuracy: float
    auc: float
    positives: float

    @classmethod
    def of_scores(cls, scores: np.ndarray, answers: np.ndarray) -> "Quality":
        called = scores > 0
        area = float(roc_auc_score(answers, np.nan_to_num(scores)))
        return cls(float((called == (answers > 0)).mean()), area, float(called.mean()))

    @classmethod
    def of_predictions(cls, predictions: np.ndarray, answers: np.ndarray) -> "Quality":
        return cls(float(r2_score(answers, predictions)), float("nan"), float("nan"))
