"""Values against type hints: a reader for each hint gives the value back, or says what is needed.

A reader accepts what a caller may sensibly write for a type: an int or a numpy scalar for a float, a list or
a range for a tuple, text for a path, a list for an array. It converts these. Where it refuses, it tells the
type of the value and never the value, which may be private. A hint that it does not know accepts everything:
a check that is unsure must not refuse.

``readers.py`` finds the reader of a hint, in ``scalars.py``, ``objects.py``, ``containers.py`` or
``arrays.py``; ``mismatch.py`` is their refusal, and ``exact_types.py`` is their shortcut for long lists. A
new kind of hint gets a reader in one of these and a line in ``readers.py``. Values are asked with ``is_a``
alone, as an object may raise whatever it is asked.
"""

from privet.type_hints.mismatch import Mismatch, Reader
from privet.type_hints.readers import reader_for

__all__ = ["Mismatch", "Reader", "reader_for"]
