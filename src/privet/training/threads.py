"""The number of torch's threads that a compiled loop uses."""

import os

import torch

__all__ = ["choose_threads"]

EACH = 1 << 14
"""Numbers that are worth one more thread, by default."""

_pool = [True]  # empty in the child of a fork


def choose_threads(numbers: int, each: int = EACH) -> int:
    """One more thread for every ``each`` numbers, at most torch's own. One in a fork, which has no pool."""
    return 1 if not _pool else min(torch.get_num_threads(), 1 + numbers // each)


os.register_at_fork(after_in_child=_pool.clear)
