"""The processes of a run: this process only, or all processes of a ``torch.distributed`` group.

Every process calls the same functions in the same order, with the same arguments, and has all of the data. In
a step:

1. The *leader*, rank 0 of the group, draws the lot and scatters it. A process learns its own examples, and
   how many there are in all. With more processes than examples, some processes have none.
2. Each process adds the clipped gradients of its share, in float32.
3. All processes check that none of them refuses. If one does, the step is refused in all of them, and nothing
   is spent.
4. The sums are reduced to the leader, in float32. The leader adds the noise, once, and broadcasts the result.
   So all models stay equal to the last bit, whatever the order of the sums is.

*Who is trusted.* All processes are trusted: they see data, and the exact sum of one process is a gradient
without noise. Only the leader sees the exact sum over all processes, the whole lot and the noise. There are
two exceptions: canaries that are gradients show all processes the exact sums in their coordinates, and a
resumed run with correlated noise shows all of them its earlier noise. The traffic between processes is as
secret as the data, and ``torch.distributed`` does not encrypt it. The ledger is the same everywhere, because
all copies of the model are one release.

*Without this* each process of a distributed job would be its own run, with its own noise and its own cost. If
the processes train on the same data, their ledgers add up.

*A process that dies* (killed, out of memory, lost machine) is detected by the others at their next collective
call: at once if its connection is closed, otherwise after the timeout of the group. They raise
``ProcessFailed``. They also raise it if one process has an exception in the middle of the optimiser step. The
ledger has what was spent, and so has the checkpoint, if there is one. All processes resume from it when they
are started again.
"""

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar, final

import torch
import torch.distributed as dist
from torch import Tensor, nn

from privet.arguments import format_value
from privet.errors import InvalidArgument, PrivetError
from privet.ledger import Ledger
from privet.training.per_example.refusals import NotFinite

__all__ = ["Distributed", "ProcessFailed", "ProcessGroup", "SingleProcess", "resolve_process_group"]

Value = TypeVar("Value")

_FINE, _NOT_FINITE, _INVALID, _FAILED = range(4)


class ProcessFailed(PrivetError):
    """Another process of the run has failed, and says why, or has died.

    ``train`` sets ``ledger`` to what its run has cost so far. In your own loop, use ``private.ledger``.
    """

    ledger: Ledger | None = None
    lost = False  # whether the process can no longer be reached


class ProcessGroup(ABC):
    """The processes of a run, as one of them sees them."""

    @property
    @abstractmethod
    def is_leader(self) -> bool:
        """Whether this process draws lots and noise, and writes the checkpoint."""

    @abstractmethod
    def scatter(self, lot: Tensor | None) -> Tensor:
        """The share of the leader's lot that this process computes. Non-leader ranks pass None."""

    @abstractmethod
    def reduce_(self, numbers: Tensor) -> None:
        """Sum over all processes, in place, at the leader. The numbers of other ranks become invalid."""

    @abstractmethod
    def broadcast_(self, numbers: Tensor) -> None:
        """Replace the numbers of all processes by the leader's, in place."""

    @abstractmethod
    def broadcast_object(self, value: Value) -> Value:
        """The leader's value, in all processes."""

    @abstractmethod
    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether some process has set it."""

    @abstractmethod
    def all_or_none(self) -> AbstractContextManager[None]:
        """A block that succeeds in all processes, or raises in all of them."""

    def broadcast_model(self, model: nn.Module) -> None:
        """Replace the weights and buffers of all processes by the leader's."""
        if any(nn.parameter.is_lazy(parameter) for parameter in model.parameters()):
            raise InvalidArgument("'model' must know its shapes, got lazy layers. Give it one batch first.")
        for value in model.state_dict().values():
            if isinstance(value, Tensor):
                self.broadcast_(value)


@final
class SingleProcess(ProcessGroup):
    """One process, which does everything."""

    @property
    def is_leader(self) -> bool:
        return True

    def scatter(self, lot: Tensor | None) -> Tensor:
        assert lot is not None
        return lot

    def reduce_(self, numbers: Tensor) -> None:
        pass

    def broadcast_(self, numbers: Tensor) -> None:
        pass

    def broadcast_object(self, value: Value) -> Value:
        return value

    def any(self, *flags: bool) -> tuple[bool, ...]:
        return flags

    def all_or_none(self) -> AbstractContextManager[None]:
        return nullcontext()


@final
class Distributed(ProcessGroup):
    """The processes of a ``torch.distributed`` group; the default is the group of all processes.

    Tested with gloo on one machine.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise InvalidArgument(
                "Distributed needs a running torch.distributed, which has not been started. "
                "Call torch.distributed.init_process_group first, or use SingleProcess()."
            )
        self._group = group
        self._rank, self._world_size = dist.get_rank(group), dist.get_world_size(group)
        if self._rank < 0:
            raise InvalidArgument(
                "'group' must contain this process, and does not. Use it only in the processes of the group."
            )
        self._leader = 0 if group is None else dist.get_global_rank(group, 0)
        self._device = torch.device("cuda" if dist.get_backend(group) == "nccl" else "cpu")

    @property
    def is_leader(self) -> bool:
        return self._rank == 0

    def scatter(self, lot: Tensor | None) -> Tensor:
        size = torch.tensor([0 if lot is None else lot.numel()], device=self._device)
        self.broadcast_(size)
        count = int(size)
        share = torch.zeros(-(-count // self._world_size), dtype=torch.int64, device=self._device)
        if not count:
            return share.cpu()
        shares: list[Tensor] | None = None
        if lot is not None:
            # dist.scatter needs tensors of equal size.
            shares = [torch.zeros_like(share) for _ in range(self._world_size)]
            for rank, padded in enumerate(shares):
                indices = lot[rank :: self._world_size]
                padded[: indices.numel()] = indices
        with self._report_lost_processes():
            dist.scatter(share, shares, src=self._leader, group=self._group)
        return share[: len(range(self._rank, count, self._world_size))].cpu()

    def reduce_(self, numbers: Tensor) -> None:
        with self._report_lost_processes():
            dist.reduce(numbers, dst=self._leader, group=self._group)

    def broadcast_(self, numbers: Tensor) -> None:
        with self._report_lost_processes():
            dist.broadcast(numbers.detach(), src=self._leader, group=self._group)

    def broadcast_object(self, value: Value) -> Value:
        objects: list[Any] = [value if self.is_leader else None]
        try:
            with self._report_lost_processes():
                dist.broadcast_object_list(objects, src=self._leader, group=self._group)
        except (pickle.PicklingError, AttributeError, TypeError) as refused:
            raise InvalidArgument(
                f"'value' must be something that can be pickled, got {type(value).__name__}. Send plain data."
            ) from refused
        return value if self.is_leader else objects[0]

    def any(self, *flags: bool) -> tuple[bool, ...]:
        numbers = torch.tensor(flags, dtype=torch.uint8, device=self._device)
        self._reduce_max_(numbers)
        return tuple(bool(flag) for flag in numbers.tolist())

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        failure: BaseException | None = None
        try:
            yield
        except BaseException as caught:
            failure = caught
        if isinstance(failure, ProcessFailed) and failure.lost:
            raise failure  # without another collective call, which would take the timeout of the group again
        worst = torch.tensor([_code(failure)], dtype=torch.uint8, device=self._device)
        try:
            self._reduce_max_(worst)
        except ProcessFailed as lost:
            raise lost if failure is None else failure from lost
        code = int(worst)
        if code == _FINE:
            return
        # All processes raise the same kind of error, so that they handle it in the same way.
        if failure is not None and _code(failure) == code:
            raise failure
        raise _failure_elsewhere(code) from failure

    def _reduce_max_(self, numbers: Tensor) -> None:
        """The maximum of each number over all processes, in place, in all of them."""
        with self._report_lost_processes():
            dist.all_reduce(numbers, dist.ReduceOp.MAX, group=self._group)

    @contextmanager
    def _report_lost_processes(self) -> Iterator[None]:
        """Turn the error of a collective call into ``ProcessFailed``.

        It means that a process is gone. Torch raises a RuntimeError, with another message in each backend.
        """
        try:
            yield
        except (RuntimeError, OSError) as lost:
            others = [rank for rank in range(self._world_size) if rank != self._rank]
            who = f"process {others[0]}" if len(others) == 1 else f"one of the processes {others}"
            failure = ProcessFailed(
                f"Another process of this run has died or cannot be reached, as process {self._rank} of "
                f"{self._world_size} sees it. It must be {who}: look into its output for the cause. What was "
                "spent so far is in the run's ledger (that of 'train' is this error's 'ledger'), and in the "
                "checkpoint if there is one. Start all processes again with the same 'checkpoint' to resume."
            )
            failure.lost = True
            raise failure from lost


def resolve_process_group(group: ProcessGroup | None) -> ProcessGroup:
    """Read the argument; None means all processes if there are several, and otherwise this one."""
    if group is None:
        several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        return Distributed() if several else SingleProcess()
    if not isinstance(group, ProcessGroup):
        raise InvalidArgument(
            f"'process_group' must be SingleProcess() or Distributed(), got {format_value(group)}. "
            f"Leave it out to use all processes of torch.distributed."
        )
    return group


def _code(failure: BaseException | None) -> int:
    match failure:
        case None:
            return _FINE
        case NotFinite():
            return _NOT_FINITE
        case InvalidArgument():
            return _INVALID
    return _FAILED


def _failure_elsewhere(code: int) -> PrivetError:
    if code == _NOT_FINITE:
        return NotFinite(
            "A per-example gradient is NaN or infinite in another process, so the step is refused in all of "
            "them. Lower the learning rate, scale the inputs, or drop such records by a public rule."
        )
    if code == _INVALID:
        return InvalidArgument(
            "Another process has refused its arguments, so all of them do. Its own message says what is "
            "wrong."
        )
    return ProcessFailed(
        "Another process of this run has failed, so all of them stop. Its own message says why."
    )
