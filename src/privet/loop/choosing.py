"""Which attacks are run: those that what is there allows, fixed before any score is seen."""

from collections.abc import Callable, Sequence
from typing import Any

from privet.attacks import (
    RMIA,
    Attack,
    BaVarIA,
    Entropy,
    Gap,
    LiRA,
    Loss,
    ModifiedEntropy,
    OfflineLiRA,
    OfflineRMIA,
)
from privet.errors import InvalidArgument
from privet.scores import Records, References
from privet.views import BlackBox, LabelOnly

__all__ = ["ATTACKS", "attacks_for"]

_ALONE: dict[str, Callable[[], Attack[Any]]] = {
    "loss": Loss,
    "entropy": Entropy,
    "modified-entropy": ModifiedEntropy,
    "gap": Gap,
}
_REFERENCED: dict[str, Callable[[References], Attack[Any]]] = {
    "lira": LiRA,
    "offline-lira": OfflineLiRA,
    "rmia": RMIA,
    "offline-rmia": OfflineRMIA,
    "bavaria": BaVarIA,
}
ATTACKS = (*_ALONE, *_REFERENCED)


def attacks_for(
    view: LabelOnly, records: Records, references: References | None, names: Sequence[str] | None = None
) -> tuple[Attack[Any], ...]:
    """The attacks of these names, or what the view and the references allow.

    Few on purpose: the level is shared out over them. With references RMIA, LiRA and the loss that they are held against;
    without, the loss and modified entropy; where only labels are seen, the gap.
    """
    if names is None:
        names = _usual(view, records, references)
    unknown = [name for name in names if name not in ATTACKS]
    if unknown or not names or len(set(names)) < len(names):
        raise InvalidArgument(
            f"'attacks' must name some of {', '.join(ATTACKS)}, each once, got {list(names)!r}. "
            f"Leave it out to run those that fit."
        )
    lacking = [name for name in names if name in _REFERENCED and references is None]
    if lacking:
        raise InvalidArgument(
            f"'attacks' names {lacking[0]}, which compares with reference models, and there are none. "
            f"Give a recipe to train them by, or take loss."
        )
    return tuple(
        _ALONE[name]() if references is None or name in _ALONE else _REFERENCED[name](references)
        for name in names
    )


def _usual(view: LabelOnly, records: Records, references: References | None) -> tuple[str, ...]:
    if not isinstance(view, BlackBox):
        return ("gap",)
    if records.labels is None:
        return ("entropy",)
    return ("loss", "modified-entropy") if references is None else ("loss", "lira", "rmia")
