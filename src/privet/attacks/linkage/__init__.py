"""Linkage: who can be found in a published table, what it tells about them, and who is behind its rows.

``uniqueness`` counts who is alone under which columns, ``population`` says what that means for the people
who were not drawn, ``anonymity`` measures k, l, t and δ. The attacks on one table are ``ExactMatch``,
``Homogeneity``, ``BackgroundKnowledge`` and ``Intersection``. ``records`` links a second table, ``histories``
a few known items of a person.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.attacks.linkage.anonymity import Anonymity, Diversity, measure_anonymity, measure_presence
    from privet.attacks.linkage.composition import Intersection
    from privet.attacks.linkage.exact_match import ExactMatch
    from privet.attacks.linkage.histories import Histories, HistoryLikelihood, Scoreboard
    from privet.attacks.linkage.population import PopulationUniqueness, estimate_population_uniqueness
    from privet.attacks.linkage.records import RecordLinkage
    from privet.attacks.linkage.secret_guesses import BackgroundKnowledge, Homogeneity, SecretGuess
    from privet.attacks.linkage.uniqueness import ColumnSet, SizeCurve, Uniqueness, measure_uniqueness

_MODULES = {
    "Anonymity": "anonymity",
    "BackgroundKnowledge": "secret_guesses",
    "ColumnSet": "uniqueness",
    "Diversity": "anonymity",
    "ExactMatch": "exact_match",
    "Histories": "histories",
    "HistoryLikelihood": "histories",
    "Homogeneity": "secret_guesses",
    "Intersection": "composition",
    "PopulationUniqueness": "population",
    "RecordLinkage": "records",
    "Scoreboard": "histories",
    "SecretGuess": "secret_guesses",
    "SizeCurve": "uniqueness",
    "Uniqueness": "uniqueness",
    "estimate_population_uniqueness": "population",
    "measure_anonymity": "anonymity",
    "measure_presence": "anonymity",
    "measure_uniqueness": "uniqueness",
}

__all__ = [
    "Anonymity",
    "BackgroundKnowledge",
    "ColumnSet",
    "Diversity",
    "ExactMatch",
    "Histories",
    "HistoryLikelihood",
    "Homogeneity",
    "Intersection",
    "PopulationUniqueness",
    "RecordLinkage",
    "Scoreboard",
    "SecretGuess",
    "SizeCurve",
    "Uniqueness",
    "estimate_population_uniqueness",
    "measure_anonymity",
    "measure_presence",
    "measure_uniqueness",
]

__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
