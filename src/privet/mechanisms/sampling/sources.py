"""What noise may be drawn from."""

from privet.arguments import shown
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource

__all__ = ["checked_source"]


def checked_source(source: NoiseSource) -> NoiseSource:
    """A source of privacy noise, and not one of experiment randomness."""
    if not isinstance(source, NoiseSource):
        raise InvalidArgument(
            f"'source' must be a NoiseSource, got {shown(source)}. Give SecureNoise(), or SeededNoise(…) in a test."
        )
    return source
