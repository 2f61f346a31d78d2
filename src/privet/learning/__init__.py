"""Private estimators that scikit-learn takes as its own: naive Bayes and linear models. Needs scikit-learn.

``LogisticRegression``, ``LinearSVC`` and ``Ridge`` are convex problems. A solver object makes them private:
``OutputPerturbation()``, ``ObjectivePerturbation()`` or ``NoisySGD()``.

*How data flow*: an estimator reads the table (``inputs``), scales rows into the unit ball (``scaling``) and
states the public side of the problem (``solver.Problem``). The solver prepares its noise from that alone, the
ledger gets the event, and only then the rows are seen. Naive Bayes (``classifier``) adds noise to counts and
sums instead.

*Where to add*: a loss in ``losses``, a solver as a module of its own, an estimator beside ``linear_models``.

>>> from privet.learning import CategoricalNB
>>> CategoricalNB(epsilon=1.0, classes=("no", "yes"), categories=(3, ("a", "b")))
CategoricalNB(categories=(3, ('a', 'b')), classes=('no', 'yes'))
"""

from privet.learning.categorical import CategoricalNB
from privet.learning.classifier import LeakWarning
from privet.learning.gaussian import GaussianNB
from privet.learning.linear_models import LinearSVC, LogisticRegression, Ridge
from privet.learning.noisy_sgd import NoisySGD
from privet.learning.objective_perturbation import ObjectivePerturbation
from privet.learning.output_perturbation import OutputPerturbation
from privet.public_calls import check_public_calls

__all__ = [
    "CategoricalNB",
    "GaussianNB",
    "LeakWarning",
    "LinearSVC",
    "LogisticRegression",
    "NoisySGD",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "Ridge",
]


check_public_calls(__name__)
