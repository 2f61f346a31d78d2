"""Small pieces of Markdown: tables and lists whose words cannot become markup."""

import re
from collections.abc import Iterable, Sequence

__all__ = ["escape_markdown", "list_sentences", "markdown_table"]

_MARKUP = re.compile(r"([\\`*_{}\[\]|~#])")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are escaped."""
    lines = [header, ["---"] * len(header), *([escape_markdown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def list_sentences(sentences: Iterable[str]) -> str:
    """A bullet list; its sentences are escaped."""
    return "\n".join(f"- {escape_markdown(words)}" for words in sentences)


def escape_markdown(plain: str) -> str:
    """Escaped words: a name cannot become markup, a link or a new cell."""
    escaped = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\1", re.sub(r"[\r\n\t]+", " ", escaped))
