"""Events → guarantee. One fold walks the tree; each accountant says what an atom costs and how costs add up.

``account`` picks the tightest guarantee; ``calibrate`` finds the noise for a target. To add an event or an
accountant, see CONTRIBUTING.md.
"""

from privet.accounting.calibration import Calibration, calibrate
from privet.accounting.choice import account, fixed_price
from privet.accounting.fold import Accountant, fold
from privet.accounting.privacy_loss import PrivacyLoss
from privet.accounting.renyi import Concentrated, GaussianDP, Renyi
from privet.accounting.targets import AdvantageTarget, EpsilonTarget, PosteriorTarget, Target, TprTarget
from privet.accounting.theorems import Advanced, Basic, Optimal, Pure
from privet.public_calls import check_public_calls

__all__ = [
    "Accountant",
    "Advanced",
    "AdvantageTarget",
    "Basic",
    "Calibration",
    "Concentrated",
    "EpsilonTarget",
    "GaussianDP",
    "Optimal",
    "PosteriorTarget",
    "PrivacyLoss",
    "Pure",
    "Renyi",
    "Target",
    "TprTarget",
    "account",
    "calibrate",
    "fixed_price",
    "fold",
]


check_public_calls(__name__)
