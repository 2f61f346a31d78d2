"""What an audit was about, as fingerprints: the model, the records or scores of both sides, and the ledger."""

import hashlib
import sys
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from privet.attacks.shadows.fingerprints import fingerprint as followed
from privet.errors import PrivetError
from privet.fingerprints import (
    Fingerprint,
    FingerprintKey,
    Fingerprints,
    ledger_fingerprint,
    records_content,
    scores_content,
    taken,
)
from privet.ledger import Ledger
from privet.scores import Records, Scores

__all__ = [
    "bare_model",
    "identify",
    "identify_scores",
    "ledger_of",
    "model_fingerprint",
    "parameters_content",
]


@runtime_checkable
class _FittedPrivately(Protocol):
    """A private estimator, which keeps its ledger after ``fit``."""

    ledger_: Any


@runtime_checkable
class _WithLedger(Protocol):
    """What private training gives."""

    @property
    def model(self) -> object: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def canaries(self) -> object: ...


def identify(
    model: object,
    members: Records,
    nonmembers: Records,
    ledger: Ledger | None,
    key: FingerprintKey,
    *,
    public_model: bool,
) -> Fingerprints:
    """The fingerprints of an audit of a model. Those of data are keyed; that of the model too, unless the model is public."""
    return Fingerprints(
        key=key.name,
        data="records",
        model=model_fingerprint(model, None if public_model else key),
        members=taken("records", records_content(members), key),
        nonmembers=taken("records", records_content(nonmembers), key),
        ledger=None if ledger is None else ledger_fingerprint(ledger),
    )


def identify_scores(scores: Scores, ledger: Ledger | None, key: FingerprintKey) -> Fingerprints:
    """The fingerprints of an audit of scores. Which model they are of is not known."""
    return Fingerprints(
        key=key.name,
        data="scores",
        members=taken("scores", scores_content(scores.of_members), key),
        nonmembers=taken("scores", scores_content(scores.of_others), key),
        ledger=None if ledger is None else ledger_fingerprint(ledger),
    )


def model_fingerprint(model: object, key: FingerprintKey | None) -> Fingerprint | None:
    """That of a torch module by its state dict, and of any other model by all that it consists of; None where it cannot be followed.

    A module is identified by its parameters and buffers and not by its code: a saved state dict has the same fingerprint. An
    estimator is identified with its class and the version of its package, because another version may answer otherwise.
    """
    model = bare_model(model)
    state = _state_dict(model)
    if state is not None:
        return taken("parameters", parameters_content(state), key)
    try:
        return taken("object", followed(model).encode(), key)
    except (PrivetError, TypeError, ValueError, AttributeError, RecursionError, NotImplementedError):
        return None  # a foreign object that cannot be taken apart: the report says that it has no fingerprint


def bare_model(model: object) -> object:
    """The model itself, where private training gave it together with its ledger."""
    return model.model if isinstance(model, _WithLedger) else model


def ledger_of(model: object) -> Ledger | None:
    """The ledger that private training gave together with the model, or that a private estimator keeps; None where there is none."""
    if isinstance(model, _WithLedger):
        return model.ledger
    kept = model.ledger_ if isinstance(model, _FittedPrivately) else None
    return kept if isinstance(kept, Ledger) else None


def parameters_content(state: Mapping[str, Any]) -> bytes:
    """A state dict in canonical form, as one hash. What is no tensor in it is followed like an object."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(state):
        value = state[name]
        if not isinstance(value, torch.Tensor):
            digest.update(f"{name}|object|{followed(value)}\n".encode())
            continue
        digest.update(f"{name}|{value.dtype}|{tuple(value.shape)}\n".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest().encode()


def _state_dict(model: object) -> Mapping[str, Any] | None:
    """That of a torch module, or of the module in a view of one; None for anything else. torch is not loaded for it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    from privet.attacks.torch_views import TorchView

    module = model.module if isinstance(model, TorchView) else model
    if not isinstance(module, torch.nn.Module):
        return None
    state: Mapping[str, Any] = module.state_dict()
    return state
