"""Linkage: who can be found in a published table, and what it tells about them.

``uniqueness`` counts who is alone under which columns, ``population`` says what that means for the people
who were not drawn, ``anonymity`` measures k, l, t and δ. The attacks are ``ExactMatch``, ``Homogeneity``,
``BackgroundKnowledge`` and ``Intersection``.
"""

from privet.attacks.linkage.anonymity import Anonymity, Diversity, measure_anonymity, measure_presence
from privet.attacks.linkage.composition import Intersection
from privet.attacks.linkage.exact_match import ExactMatch
from privet.attacks.linkage.population import PopulationUniqueness, estimate_population_uniqueness
from privet.attacks.linkage.secret_guesses import BackgroundKnowledge, Homogeneity, SecretGuess
from privet.attacks.linkage.uniqueness import ColumnSet, SizeCurve, Uniqueness, measure_uniqueness
from privet.public_calls import check_public_calls

__all__ = [
    "Anonymity",
    "BackgroundKnowledge",
    "ColumnSet",
    "Diversity",
    "ExactMatch",
    "Homogeneity",
    "Intersection",
    "PopulationUniqueness",
    "SecretGuess",
    "SizeCurve",
    "Uniqueness",
    "estimate_population_uniqueness",
    "measure_anonymity",
    "measure_presence",
    "measure_uniqueness",
]

check_public_calls(__name__)
"""Linkage: who is behind the rows of a published table, by what an adversary knows of people."""
"""Linkage: who is behind the rows of a published table, by what an adversary knows of people.

``records`` links a second table, ``histories`` a few known items of a person.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.attacks.linkage.histories import Histories, HistoryLikelihood, Scoreboard
    from privet.attacks.linkage.records import RecordLinkage

_MODULES = {
    "Histories": "histories",
    "HistoryLikelihood": "histories",
    "RecordLinkage": "records",
    "Scoreboard": "histories",
}

__all__ = ["Histories", "HistoryLikelihood", "RecordLinkage", "Scoreboard"]

__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
