"""A check of the source that noise is drawn from."""

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource

__all__ = ["check_source"]


def check_source(source: NoiseSource) -> NoiseSource:
    """A source of privacy noise, as opposed to experiment randomness."""
    if not isinstance(source, NoiseSource):
        raise InvalidArgument(
            f"'source' must be a NoiseSource, got {format_value(source)}. Give SecureNoise(), or "
            f"SeededNoise(…) in a test."
        )
    return source
