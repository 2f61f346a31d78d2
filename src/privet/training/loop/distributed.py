"""Who takes part in a run: this process alone, or all processes of a ``torch.distributed`` group.

Every process calls the same functions in the same order, with the same arguments, and has all of the data. In a step:

1. The *leader*, rank 0 of the group, draws the lot and deals it out. A process learns which examples it has to do itself, and
   how many there are in all. With more processes than examples some have none.
2. Each process adds up the clipped gradients of its part, in float32.
3. All agree that no one refuses; if one does, the step is refused everywhere, and nothing is spent.
4. The parts are added up at the leader, in float32. The leader adds the noise, once, and sends the result to all. So
   all models stay the same to the last bit, whatever the order of the sums.

*Who is trusted.* All processes are: they see data, and whoever sees the exact part of one sees gradients without noise. The
leader alone sees the exact sum, the whole lot and the noise; save that canaries which are gradients show all of them the exact
sums in their coordinates, and that a run with correlated noise which goes on shows all of them its earlier noise. What travels between processes is as secret as the data, and
``torch.distributed`` does not encrypt it. The ledger is the same everywhere, because all copies of the model are one release.

*Without this* each process of a distributed job would be a run of its own, with its own noise and its own cost; where they
train on the same data, their ledgers add up.

*A process that dies* (killed, out of memory, a machine that is gone) is noticed by the others at the next thing that they do together:
at once where its connection is closed, or when the group's timeout is over. They raise ``ProcessFailed``. So they do where one process
alone runs into an exception in the middle of the optimiser's step. What was spent is in the ledger, and in the checkpoint if there is
one, from which all processes go on when they are started again.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar, final

import torch
import torch.distributed as dist
from torch import Tensor, nn

from privet.arguments import shown
from privet.errors import InvalidArgument, PrivetError
from privet.ledger import Ledger
from privet.training.per_example.refusals import NotFinite

__all__ = ["Alone", "ProcessFailed", "Together", "Workers", "workers_of"]

Value = TypeVar("Value")

_FINE, _NOT_FINITE, _INVALID, _FAILED = range(4)


class ProcessFailed(PrivetError):
    """Another process of the run has failed, and says why, or has died.

    ``train`` puts into ``ledger`` what its run has cost so far; loops of your own have ``private.ledger``.
    """

    ledger: Ledger | None = None
    lost = False  # whether the process cannot be asked any more


class Workers(ABC):
    """The processes of a run, as one of them sees them."""

    @property
    @abstractmethod
    def leads(self) -> bool:
        """Whether this process draws lots and noise, and keeps the checkpoint."""

    @abstractmethod
    def part(self, lot: Tensor | None) -> Tensor:
        """What this process has to do of the leader's lot; others than the leader give None."""

    @abstractmethod
    def total_(self, numbers: Tensor) -> None:
        """The sum over all processes, in place, at the leader; others must not use theirs any more."""

    @abstractmethod
    def spread_(self, numbers: Tensor) -> None:
        """The leader's numbers, in place, everywhere."""

    @abstractmethod
    def leaders(self, value: Value) -> Value:
        """The leader's value, everywhere."""

    @abstractmethod
    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether some process has raised it."""

    @abstractmethod
    def agreed(self) -> AbstractContextManager[None]:
        """A block that ends well in all processes, or raises in all of them."""

    def align(self, model: nn.Module) -> None:
        """The leader's weights and buffers, everywhere."""
        for value in model.state_dict().values():
            if isinstance(value, Tensor):
                self.spread_(value)


@final
class Alone(Workers):
    """One process, which does it all."""

    @property
    def leads(self) -> bool:
        return True

    def part(self, lot: Tensor | None) -> Tensor:
        assert lot is not None
        return lot

    def total_(self, numbers: Tensor) -> None:
        pass

    def spread_(self, numbers: Tensor) -> None:
        pass

    def leaders(self, value: Value) -> Value:
        return value

    def any(self, *flags: bool) -> tuple[bool, ...]:
        return flags

    def agreed(self) -> AbstractContextManager[None]:
        return nullcontext()


@final
class Together(Workers):
    """The processes of a group; without one, all that ``torch.distributed`` was started with.

    Tested with gloo on one machine.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise InvalidArgument(
                "Together must have processes that know of each other, and torch.distributed has not been started. "
                "Call torch.distributed.init_process_group first, or use Alone()."
            )
        self._group = group
        self._rank, self._world = dist.get_rank(group), dist.get_world_size(group)
        if self._rank < 0:
            raise InvalidArgument(
                "'group' must hold this process, and does not. Call it in the processes of the group alone."
            )
        self._leader = 0 if group is None else dist.get_global_rank(group, 0)
        self._device = torch.device("cuda" if dist.get_backend(group) == "nccl" else "cpu")

    @property
    def leads(self) -> bool:
        return self._rank == 0

    def part(self, lot: Tensor | None) -> Tensor:
        size = torch.tensor([0 if lot is None else lot.numel()], device=self._device)
        self.spread_(size)
        count = int(size)
        room = -(-count // self._world)
        mine = torch.zeros(room, dtype=torch.int64, device=self._device)
        if not count:
            return mine.cpu()
        parts: list[Tensor] | None = None
        if lot is not None:
            parts = [
                torch.zeros_like(mine) for _ in range(self._world)
            ]  # all of one size, as scatter wants it
            for rank, part in enumerate(parts):
                dealt = lot[rank :: self._world]
                part[: dealt.numel()] = dealt
        with self._exchanging():
            dist.scatter(mine, parts, src=self._leader, group=self._group)
        return mine[: len(range(self._rank, count, self._world))].cpu()

    def total_(self, numbers: Tensor) -> None:
        with self._exchanging():
            dist.reduce(numbers, dst=self._leader, group=self._group)

    def spread_(self, numbers: Tensor) -> None:
        with self._exchanging():
            dist.broadcast(numbers.detach(), src=self._leader, group=self._group)

    def leaders(self, value: Value) -> Value:
        holder: list[Any] = [value if self.leads else None]
        with self._exchanging():
            dist.broadcast_object_list(holder, src=self._leader, group=self._group)
        return value if self.leads else holder[0]

    def any(self, *flags: bool) -> tuple[bool, ...]:
        raised = torch.tensor(flags, dtype=torch.uint8, device=self._device)
        self._most_(raised)
        return tuple(bool(flag) for flag in raised.tolist())

    @contextmanager
    def agreed(self) -> Iterator[None]:
        mine: BaseException | None = None
        try:
            yield
        except BaseException as failure:
            mine = failure
        if isinstance(mine, ProcessFailed) and mine.lost:
            raise mine  # without asking again, which would take the group's timeout once more
        worst = torch.tensor([_code(mine)], dtype=torch.uint8, device=self._device)
        try:
            self._most_(worst)
        except ProcessFailed as lost:
            raise lost if mine is None else mine from lost
        code = int(worst)
        if code == _FINE:
            return
        # All raise the same kind, so that what they do about it is the same too.
        if mine is not None and _code(mine) == code:
            raise mine
        raise _elsewhere(code) from mine

    def _most_(self, numbers: Tensor) -> None:
        """The largest of each number over all processes, in place, everywhere."""
        with self._exchanging():
            dist.all_reduce(numbers, dist.ReduceOp.MAX, group=self._group)

    @contextmanager
    def _exchanging(self) -> Iterator[None]:
        """What goes wrong in here is that a process is gone: torch tells it as a RuntimeError, in each backend's own words."""
        try:
            yield
        except (RuntimeError, OSError) as lost:
            others = [rank for rank in range(self._world) if rank != self._rank]
            who = f"process {others[0]}" if len(others) == 1 else f"one of the processes {others}"
            failure = ProcessFailed(
                f"Another process of this run has died or cannot be reached, as process {self._rank} of {self._world} sees it. "
                f"It must be {who}: look into its output for the cause. What was spent so far is in the run's ledger (that of 'train' is this "
                f"error's 'ledger'), and in the checkpoint if there is one; start all processes again with the same 'checkpoint' to go on from there."
            )
            failure.lost = True
            raise failure from lost


def workers_of(workers: Workers | None) -> Workers:
    """These workers; left out, all processes if there are several, and this one otherwise."""
    if workers is None:
        several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        return Together() if several else Alone()
    if not isinstance(workers, Workers):
        raise InvalidArgument(
            f"'workers' must be Alone() or Together(), got {shown(workers)}. "
            f"Leave it out for all processes of torch.distributed."
        )
    return workers


def _code(failure: BaseException | None) -> int:
    match failure:
        case None:
            return _FINE
        case NotFinite():
            return _NOT_FINITE
        case InvalidArgument():
            return _INVALID
    return _FAILED


def _elsewhere(code: int) -> PrivetError:
    if code == _NOT_FINITE:
        return NotFinite(
            "A per-example gradient is NaN or infinite in another process, so the step is refused in all of them. "
            "Lower the learning rate, scale the inputs, or drop such records by a public rule."
        )
    if code == _INVALID:
        return InvalidArgument(
            "Another process has refused what it was given, so all of them do. Its own message says what is wrong."
        )
    return ProcessFailed(
        "Another process of this run has failed, so all of them stop. Its own message says why."
    )
