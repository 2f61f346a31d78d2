"""Pictures as PNG in a data URI: no file beside the page, and no imaging library.

Reference: Portable Network Graphics, W3C Recommendation (third edition): signature, IHDR, IDAT and IEND, each
chunk with its length and CRC-32; filter 0 in every row.
"""

import struct
import zlib
from base64 import b64encode

import numpy as np

from privet.exhibits import Picture

__all__ = ["data_uri", "encode_png"]

_GREY, _COLOUR = 0, 2


def encode_png(picture: Picture) -> bytes:
    """The bytes of a PNG file, eight bits for each sample.

    >>> encode_png(Picture(np.zeros((2, 3))))[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    pixels = picture.pixels
    height, width = pixels.shape[:2]
    rows = np.ascontiguousarray(pixels).reshape(height, -1)
    lines = np.concatenate(
        [np.zeros((height, 1), dtype=np.uint8), rows], axis=1
    )  # each row begins with its filter
    header = struct.pack(">IIBBBBB", width, height, 8, _GREY if pixels.ndim == 2 else _COLOUR, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def data_uri(picture: Picture) -> str:
    """The picture as a URI that holds its own data."""
    return f"data:image/png;base64,{b64encode(encode_png(picture)).decode()}"


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
