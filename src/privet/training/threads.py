"""How many of torch's threads a compiled loop takes."""

import os

import torch

__all__ = ["threads_for"]

EACH = 1 << 14
"""How many numbers are worth one more thread, if nothing is said."""

_pool = [True]  # emptied in a fork


def threads_for(numbers: int, each: int = EACH) -> int:
    """One for every so many numbers, as far as torch has them; one alone in a fork, where torch's threads do not exist."""
    return 1 if not _pool else min(torch.get_num_threads(), 1 + numbers // each)


os.register_at_fork(after_in_child=_pool.clear)
