"""A check of the source that noise is drawn from."""

from privet.errors import InvalidArgument
from privet.randomness import NoiseSource

__all__ = ["check_source"]


def check_source(source: NoiseSource) -> NoiseSource:
    """A source of privacy noise, as opposed to experiment randomness."""
    if not isinstance(source, NoiseSource):
        raise InvalidArgument(
            f"'source' must be a NoiseSource, got a value of type {type(source).__name__}. Give "
            f"SecureNoise(), or SeededNoise(…) in a test."
        )
    return source
