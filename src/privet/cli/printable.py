"""Text that is safe on a terminal: it cannot move the cursor, change colours or the direction of writing.

Keys that a release discovers, names of columns, files and models come from data and from other people. A
terminal obeys control characters in them. They are shown as escapes instead. The password of a database is
shown nowhere.
"""

import re

__all__ = ["one_line", "printable", "printable_json"]

_CONTROLS = "\x00-\x09\x0b-\x1f\x7f-\x9f"
_UNSEEN = (
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"  # directions, joiners, separators
)
_SURROGATES = "\ud800-\udfff"
_BAD = re.compile(f"[{_CONTROLS}{_UNSEEN}{_SURROGATES}]")
_USER = re.compile(r"(postgres(?:ql)?://)[^\s\"]*@", re.IGNORECASE)
_PASSWORD = re.compile(r"(postgres(?:ql)?://[^\s\"]*?[?&](?:ssl)?password=)[^\s&'\"]*", re.IGNORECASE)
_BAD_OR_NEWLINE = re.compile(f"[\n{_CONTROLS}{_UNSEEN}{_SURROGATES}]")


def printable(text: str) -> str:
    """Text of several lines, with every other control character by its number.

    >>> printable("a\\x1b[31mb\\nc")
    'a\\\\x1b[31mb\\nc'
    """
    return _BAD.sub(_number, _hide_passwords(text))


def one_line(text: str) -> str:
    """Text for one cell of a table: a newline is shown by its number too, so that no cell can look like a
    row.

    >>> one_line("a\\nb")
    'a\\\\nb'
    """
    return _BAD_OR_NEWLINE.sub(_number, _hide_passwords(text))


def printable_json(document: str) -> str:
    """A JSON document with the same meaning: such characters stand only inside of its strings, where JSON has
    escapes for them.
    """
    return _BAD.sub(lambda found: f"\\u{ord(found[0]):04x}", _hide_passwords(document))


def _hide_passwords(text: str) -> str:
    """Text without the user and the password in the URL of a database, whoever quotes it.

    >>> _hide_passwords("unrecognized arguments: postgresql://ann:hush@db/clinic?password=hush&table=t")
    'unrecognized arguments: postgresql://…@db/clinic?password=…&table=t'
    """
    return _PASSWORD.sub(r"\1…", _USER.sub(r"\1…@", text))


def _number(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
