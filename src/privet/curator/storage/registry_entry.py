"""A deployment as the registry of differential privacy deployments describes one, as far as the ledger knows
it.

*Reference*: the entries at github.com/opendp/deployments-registry-data (folder ``deployments``), whose
fields and order are used here; they are YAML, and JSON is YAML. A field that only people know is None, and
is theirs to fill in: no entry is complete without them.
"""

from collections import Counter
from typing import Any

from privet.adjacency import Unit
from privet.curator.service import BudgetState
from privet.ledger import Ledger

__all__ = ["write_registry_entry"]

_UNITS = {Unit.RECORD: "Record-level", Unit.USER: "User-level", Unit.CLIENT: "Client-level"}


def write_registry_entry(dataset: str, ledger: Ledger, cap: BudgetState) -> dict[str, Any]:
    """The entry of one dataset of a curator."""
    pure = cap.delta == 0
    parameters: dict[str, float] = {"epsilon": cap.epsilon}
    if not pure:
        parameters["delta"] = cap.delta
    kinds = Counter(type(entry.event).__name__ for entry in ledger)
    mechanisms = "\n".join(f"- {name}: {count}" for name, count in sorted(kinds.items()))
    neighbours = {
        "add-remove": "one unit more or one fewer",
        "replace-one": "one unit exchanged for another",
        "zero-out": "one unit's contribution set to nothing",
    }[ledger.adjacency.relation]
    column = (
        "" if ledger.unit_column is None else f" A unit is all rows with one value of {ledger.unit_column!r}."
    )
    return {
        "url_slug": None,
        "status": "Draft",
        "tier": None,
        "deployment": {
            "product": {
                "name": dataset,
                "data_curators": None,
                "intended_use": None,
                "data_product_type": "Answers to questions",
                "data_product_region": None,
                "description": None,
                "publication_date": None,
                "data_product_sector": None,
            },
            "dp_flavor": {
                "name": "Pure DP" if pure else "Approximate DP",
                "input_metric": None,
                "bound_on_input_distance": "1",
                "output_measure": "Max divergence" if pure else "Smoothed max divergence",
                "bound_on_output_distance": f"ε = {cap.epsilon:g}, δ = {cap.delta:g}",
                "data_domain": None,
                "unprotected_quantities": "Metadata: names of columns, bounds, declared keys.",
            },
            "privacy_loss": {
                "privacy_unit": _UNITS[ledger.adjacency.unit],
                "privacy_unit_description": f"Neighbouring tables differ by {neighbours}.{column}",
                "privacy_parameters": parameters,
                "privacy_parameters_description": (
                    f"A bound on all answers together, kept by the {cap.filter_name} filter; "
                    f"{len(ledger.entries)} charges so far."
                ),
            },
            "model": {
                "model_name": "Central",
                "model_name_description": (
                    "A curator has the data; a gateway that cannot open them keeps the budget."
                ),
                "actors": None,
                "release_type": "Many releases",
                "release_type_description": "Each answer is a release; all are within one budget.",
                "data_source_type": None,
                "data_source_type_description": None,
                "access_type": "Interactive",
                "access_type_description": (
                    "Analysts with an account choose questions in view of earlier answers."
                ),
            },
            "accounting": {
                "post_processing": "Answers may be clamped and rounded after noise was added.",
                "composition": (
                    f"{cap.filter_name} filter, which is valid for adaptively chosen parameters. Collusion "
                    "is assumed: the budget is for all analysts together."
                ),
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": None,
                "mechanisms": mechanisms or None,
                "justification": None,
            },
            "resources": {"sources": None, "registry_authors": None},
        },
    }
