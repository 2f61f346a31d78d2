"""Attacks on synthetic tables: who can be found in a table that is said to contain nobody.

``attack_synthetic`` runs all of them. Singling out, linkability and inference are the three risks that data
protection law names for anonymous data; nearest records, density ratios and shadow generators ask who was in
the original. Each compares people of the original with a control of people who were not in it (``game``).
"""

from privet.attacks.synthetic.all_attacks import SyntheticFindings, attack_synthetic
from privet.attacks.synthetic.densities import Density, KernelDensity, NeighborDensity, TreeDensity
from privet.attacks.synthetic.density_ratio import DensityRatio, name_members
from privet.attacks.synthetic.inference import Guesser, Inference, LearntGuess, NearestGuess
from privet.attacks.synthetic.linkability import Linkability
from privet.attacks.synthetic.nearest_records import ExactCopies, NearestDistances, NearestRecord
from privet.attacks.synthetic.shadow_generators import ShadowGenerators
from privet.attacks.synthetic.singling_out import PredicateCounts, SinglingOut
from privet.public_calls import check_public_calls

__all__ = [
    "Density",
    "DensityRatio",
    "ExactCopies",
    "Guesser",
    "Inference",
    "KernelDensity",
    "LearntGuess",
    "Linkability",
    "NearestDistances",
    "NearestGuess",
    "NearestRecord",
    "NeighborDensity",
    "PredicateCounts",
    "ShadowGenerators",
    "SinglingOut",
    "SyntheticFindings",
    "TreeDensity",
    "attack_synthetic",
    "name_members",
]


check_public_calls(__name__)
