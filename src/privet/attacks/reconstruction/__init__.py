"""Reconstruction: what published numbers and models give away of single people.

``Differencing`` and ``Averaging`` need two answers, or the same answer again and again. ``LeastSquares`` and
``LinearProgram`` solve many sums for everybody's bit. ``ConsistentTables`` finds the tables that agree with
published statistics, and what is certain. ``ModelDifferencing`` compares two models, with and without one
person.

>>> import numpy as np
>>> generator = np.random.default_rng(0)
>>> bits, queries = generator.integers(0, 2, 100), generator.integers(0, 2, (400, 100))
>>> sums = SubsetSums(queries, queries @ bits + generator.uniform(-2, 2, 400))
>>> LeastSquares().run(sums, bits)
Recoveries('least squares', 100 of 100 hit, all in the data)
"""

from privet.attacks.reconstruction.averaging import Averaging
from privet.attacks.reconstruction.consistent_tables import CertifiedPeople, ConsistentTables
from privet.attacks.reconstruction.differencing import Differencing
from privet.attacks.reconstruction.known_others import KnownOthers
from privet.attacks.reconstruction.least_squares import LeastSquares
from privet.attacks.reconstruction.linear_attack import LinearReconstruction
from privet.attacks.reconstruction.linear_program import LinearProgram
from privet.attacks.reconstruction.model_differencing import ModelDifferencing, ModelPair
from privet.attacks.reconstruction.published_statistics import PeopleColumns, PeopleGroup, PublishedStatistic
from privet.attacks.reconstruction.secret_number import SecretNumber
from privet.attacks.reconstruction.subset_sums import SubsetSums
from privet.public_calls import check_public_calls

__all__ = [
    "Averaging",
    "CertifiedPeople",
    "ConsistentTables",
    "Differencing",
    "KnownOthers",
    "LeastSquares",
    "LinearProgram",
    "LinearReconstruction",
    "ModelDifferencing",
    "ModelPair",
    "PeopleColumns",
    "PeopleGroup",
    "PublishedStatistic",
    "SecretNumber",
    "SubsetSums",
]


check_public_calls(__name__)
