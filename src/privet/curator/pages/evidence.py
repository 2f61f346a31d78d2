"""The entry of a dataset for a public registry of deployments, from the evidence that the curator exports."""

from collections.abc import Mapping
from typing import Any

from privet import __version__
from privet.curator.service import BudgetState, DatasetCard

__all__ = ["registry_entry"]


def registry_entry(card: DatasetCard, cap: BudgetState | None, evidence: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of the second transparency tier of OpenDP's registry; what only the steward knows is null.

    Reference: registry.opendp.org/transparency-tiers. Tier 2 asks for curator, use, product and date, and for the flavour,
    the privacy unit, the parameters and the deployment model.
    """
    if isinstance(evidence.get("deployment"), Mapping):
        return dict(evidence["deployment"])
    unit = card.metadata.get("unit")
    return {
        "tier": 2,
        "name": card.name,
        "data_curator": None,
        "intended_use": None,
        "data_product_description": card.description,
        "publication_date": None,
        "dp_flavor": "pure differential privacy" if cap is not None and cap.delta == 0 else "approximate differential privacy",
        "privacy_unit": "one row" if unit is None else f"all rows of one value of the column {unit!r}",
        "adjacency": card.metadata.get("adjacency"),
        "privacy_parameters": None
        if cap is None
        else {"epsilon": cap.epsilon, "delta": cap.delta, "epsilon_reached": cap.reached},
        "composition": None if cap is None else cap.filter_name,
        "deployment_model": "central: a trusted curator answers questions of analysts",
        "implementation": f"Privet {__version__}",
    }
