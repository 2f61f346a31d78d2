"""A survey of 6,366 married women by a magazine: eight questions, and whether they had had an affair.

Source: Fair, "A Theory of Extramarital Affairs", Journal of Political Economy 86(1), 1978 (the *Redbook*
survey of 1974). It comes with statsmodels, by permission of the author. Women ticked their answers on a form,
so each question has a fixed list of codes. The lists below are those of the form; they do not depend on the
records.
"""

import numpy as np

from privet.errors import MissingPackage
from privet.scores import Records

__all__ = ["COLUMNS", "QUESTIONS", "RELIGIOUS", "affairs"]

# Question, and the code of each answer. Codes of age, years and children stand for intervals: 42 is "40 or
# over", 5.5 is "five or more".
QUESTIONS: dict[str, tuple[float, ...]] = {
    "rate_marriage": (1, 2, 3, 4, 5),
    "age": (17.5, 22, 27, 32, 37, 42),
    "yrs_married": (0.5, 2.5, 6, 9, 13, 16.5, 23),
    "children": (0, 1, 2, 3, 4, 5.5),
    "religious": (1, 2, 3, 4),
    "educ": (9, 12, 14, 16, 17, 20),
    "occupation": (1, 2, 3, 4, 5, 6),
    "occupation_husb": (1, 2, 3, 4, 5, 6),
}
COLUMNS = tuple(f"{question} = {code:g}" for question, codes in QUESTIONS.items() for code in codes)
RELIGIOUS = ("not religious", "mildly religious", "fairly religious", "strongly religious")
_ANSWER = "affairs"


def affairs() -> Records:
    """The survey as 0 and 1: a column for each possible answer, the label 1 for an affair.

    Groups are by religiousness.

    >>> records = affairs()
    >>> records.inputs.shape, round(float(records.known_labels.mean()), 3)
    ((6366, 46), 0.322)
    """
    try:
        from statsmodels.datasets import fair  # type: ignore[import-untyped]
    except ImportError:
        raise MissingPackage(
            "The survey needs the package 'statsmodels', which is not installed. Run pip install "
            "'privet[demo]'."
        ) from None
    survey = fair.load_pandas().data
    ticked = [
        survey[question].to_numpy()[:, None] == np.array(codes) for question, codes in QUESTIONS.items()
    ]
    religious = survey["religious"].to_numpy().astype(np.int64) - 1
    return Records(
        np.concatenate(ticked, axis=1).astype(np.float32),
        (survey[_ANSWER].to_numpy() > 0).astype(np.int64),
        np.array(RELIGIOUS)[religious],
    )
