"""Learning from noisy counts: classifiers that scikit-learn takes as its own. Needs scikit-learn.

>>> from privet.learning import CategoricalNB
>>> CategoricalNB(epsilon=1.0, classes=("no", "yes"), categories=(3, ("a", "b")))
CategoricalNB(categories=(3, ('a', 'b')), classes=('no', 'yes'))
"""

from privet.learning.categorical import CategoricalNB
from privet.learning.classifier import LeakWarning
from privet.learning.gaussian import GaussianNB

__all__ = ["CategoricalNB", "GaussianNB", "LeakWarning"]
