"""Synthetic tables: one release that answers many questions.

A mechanism (``AIM``, ``MST``, ``MWEM``) has public fields and releases ``SyntheticData`` from a private
table. Answers and samples are post-processing; the ledger holds every query of the data.

*How data flow*: a table is encoded into cells of a public domain (``domain``). A run (``runs``) sees it only
through ``noisy_access``, which adds noise and writes the ledger. An estimator (``estimation``, ``descent``,
``pgm``) fits a model (``models``, ``junction``) to the noisy marginals.

*Where to add*: a mechanism as a module of its own beside ``aim``, ``mst`` and ``mwem``; an estimator beside
``descent``.

>>> from privet.adjacency import AddRemove
>>> domain = Domain((Categories("sex", ("f", "m")), Bins("age", (0.0, 30.0, 60.0, 120.0))))
>>> table = {"sex": ["f", "m"] * 500, "age": [20, 40, 70, 35] * 250}
>>> released = MST(domain=domain, epsilon=5.0, delta=1e-6, adjacency=AddRemove()).release(table)
>>> released.answer(("sex", "age")).shape, len(released.ledger)
((2, 3), 4)
"""

from privet.public_calls import check_public_calls
from privet.releasing.synthetic.aim import AIM
from privet.releasing.synthetic.descent import MirrorDescent
from privet.releasing.synthetic.domain import Bins, Categories, Column, Domain
from privet.releasing.synthetic.estimation import Estimator
from privet.releasing.synthetic.marginals import Workload, all_marginals
from privet.releasing.synthetic.mst import MST
from privet.releasing.synthetic.mwem import MWEM
from privet.releasing.synthetic.pgm import PrivatePGM
from privet.releasing.synthetic.runs import SyntheticData, SyntheticMechanism, SyntheticRun

__all__ = [
    "AIM",
    "MST",
    "MWEM",
    "Bins",
    "Categories",
    "Column",
    "Domain",
    "Estimator",
    "MirrorDescent",
    "PrivatePGM",
    "SyntheticData",
    "SyntheticMechanism",
    "SyntheticRun",
    "Workload",
    "all_marginals",
]


check_public_calls(__name__)
