"""The fingerprints of an audit: of the model, the records or scores of both sides, and the ledger."""

import hashlib
import sys
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from privet.attacks.shadows.fingerprints import fingerprint as object_fingerprint
from privet.errors import PrivetError
from privet.fingerprints import (
    Fingerprint,
    FingerprintKey,
    Fingerprints,
    ledger_fingerprint,
    records_content,
    scores_content,
    take_fingerprint,
)
from privet.ledger import Ledger
from privet.scores import Records, Scores

__all__ = [
    "bare_model",
    "find_ledger",
    "identify",
    "identify_scores",
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
    """The fingerprints of an audit of a model. Data is keyed; so is the model, unless it is public."""
    return Fingerprints(
        key=key.name,
        data="records",
        model=model_fingerprint(model, None if public_model else key),
        members=take_fingerprint("records", records_content(members), key),
        nonmembers=take_fingerprint("records", records_content(nonmembers), key),
        ledger=None if ledger is None else ledger_fingerprint(ledger),
    )


def identify_scores(scores: Scores, ledger: Ledger | None, key: FingerprintKey) -> Fingerprints:
    """The fingerprints of an audit of scores. The model behind the scores is not known."""
    return Fingerprints(
        key=key.name,
        data="scores",
        members=take_fingerprint("scores", scores_content(scores.of_members), key),
        nonmembers=take_fingerprint("scores", scores_content(scores.of_others), key),
        ledger=None if ledger is None else ledger_fingerprint(ledger),
    )


def model_fingerprint(model: object, key: FingerprintKey | None) -> Fingerprint | None:
    """The fingerprint of a torch module by its state dict, of any other model by all its parts.

    None where that fails.

    A module is identified by its parameters and buffers and not by its code: a saved state dict has the same
    fingerprint. An estimator is identified with its class and the version of its package, because another
    version may answer otherwise.
    """
    model = bare_model(model)
    state = _state_dict(model)
    if state is not None:
        return take_fingerprint("parameters", parameters_content(state), key)
    try:
        return take_fingerprint("object", object_fingerprint(model).encode(), key)
    except (PrivetError, TypeError, ValueError, AttributeError, RecursionError, NotImplementedError):
        return None  # a foreign object that cannot be hashed: the report says that it has no fingerprint


def bare_model(model: object) -> object:
    """The model itself, where private training gave it together with its ledger."""
    return model.model if isinstance(model, _WithLedger) else model


def find_ledger(model: object) -> Ledger | None:
    """The ledger of a privately trained model or of a private estimator; None where there is none."""
    if isinstance(model, _WithLedger):
        return model.ledger
    ledger = model.ledger_ if isinstance(model, _FittedPrivately) else None
    return ledger if isinstance(ledger, Ledger) else None


def parameters_content(state: Mapping[str, Any]) -> bytes:
    """A state dict in canonical form, as one hash. Values that are no tensors are hashed like objects."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(state):
        value = state[name]
        if not isinstance(value, torch.Tensor):
            digest.update(f"{name}|object|{object_fingerprint(value)}\n".encode(errors="surrogatepass"))
            continue
        digest.update(f"{name}|{value.dtype}|{tuple(value.shape)}\n".encode(errors="surrogatepass"))
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest().encode()


def _state_dict(model: object) -> Mapping[str, Any] | None:
    """The state dict of a torch module, or of the module in a view.

    None for anything else. torch is not loaded for it.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    from privet.attacks.torch_views import TorchView

    module = model.module if isinstance(model, TorchView) else model
    if not isinstance(module, torch.nn.Module):
        return None
    state: Mapping[str, Any] = module.state_dict()
    return state
