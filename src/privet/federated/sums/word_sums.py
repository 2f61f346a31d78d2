"""Protocols that sum words: what they have in common, and their sums with noise that the clients add."""

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import final

from privet.errors import InvalidArgument
from privet.events import Event
from privet.federated.sum_protocols import Messages, NoisySumProtocol, SumProtocol, SumResult
from privet.federated.sums.distributed_gaussian import DistributedGaussian
from privet.federated.sums.word_encoding import WordEncoding
from privet.views import Numbers

__all__ = ["DistributedSum", "WordSum"]


class WordSum(SumProtocol):
    """A protocol over words, which its encoding makes from numbers."""

    encoding: WordEncoding

    @abstractmethod
    def with_encoding(self, encoding: WordEncoding) -> "WordSum":
        """The same protocol with another encoding."""

    @property
    def largest_number(self) -> float:
        return self.encoding.largest_number

    def bound_growth(self, length: int) -> float:
        return self.encoding.bound_growth(length)


@final
@dataclass(frozen=True, eq=False)
class DistributedSum(NoisySumProtocol):
    """A sum of words with noise in shares: distributed differential privacy.

    ``inner`` hides the single vectors, and its encoding is a ``DistributedGaussian``. Both ends refuse a
    cohort for which ``inner`` does not guarantee as many honest clients as the noise is planned for. So the
    event of a round does not depend on how many clients come.

    Guarantee: that of ``DistributedGaussian``, against everybody whom ``inner`` stands.
    """

    inner: WordSum

    def __post_init__(self) -> None:
        self._noise()

    def _noise(self) -> DistributedGaussian:
        encoding = self.inner.encoding
        if not isinstance(encoding, DistributedGaussian):
            raise InvalidArgument(
                f"'inner' must have the encoding DistributedGaussian, got {type(encoding).__name__}, "
                "which adds no noise. Give it encoding=DistributedGaussian.fit(…)."
            )
        return encoding

    @property
    def threat_model(self) -> str:
        return self.inner.threat_model

    @property
    def clip_bound(self) -> float:
        return self._noise().clip

    def with_noise(self, noise_multiplier: float) -> "DistributedSum":
        return DistributedSum(
            self.inner.with_encoding(replace(self._noise(), noise_multiplier=noise_multiplier))
        )

    def event(self, *, length: int, contributors: int) -> Event:
        del contributors  # ``inner`` opens no sum with less than the planned noise
        return self._noise().describe_noise(length)

    def serve(
        self, *, round_number: int, clients: Sequence[int], length: int
    ) -> Generator[Messages, Messages, SumResult]:
        return self.inner.serve(round_number=round_number, clients=clients, length=length)

    def answer(
        self, *, client: int, message: bytes, state: bytes, vector: Callable[[], Numbers]
    ) -> tuple[bytes, bytes]:
        return self.inner.answer(client=client, message=message, state=state, vector=vector)
