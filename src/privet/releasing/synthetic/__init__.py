"""Synthetic tables: one release that answers many questions.

A mechanism (``AIM``, ``MST``, ``MWEM``) has public fields and releases a ``Synthetic`` from a private table. Its
answers and samples are post-processing; its ledger holds every look at the data.

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
from privet.releasing.synthetic.running import Mechanism, Run, Synthetic

__all__ = [
    "AIM",
    "MST",
    "MWEM",
    "Bins",
    "Categories",
    "Column",
    "Domain",
    "Estimator",
    "Mechanism",
    "MirrorDescent",
    "PrivatePGM",
    "Run",
    "Synthetic",
    "Workload",
    "all_marginals",
]


check_public_calls(__name__)
