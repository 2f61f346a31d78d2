"""A table of a PostgreSQL server, by its address and its name. Nothing is opened here."""

import os
from dataclasses import dataclass, field
from typing import final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from privet.arguments import format_value
from privet.errors import InvalidArgument

__all__ = ["PostgresTable"]

_SCHEMES = ("postgresql", "postgres")
_PLACES = ("host", "hostaddr", "port", "dbname", "service")  # parameters that say which database it is


@final
@dataclass(frozen=True)
class PostgresTable:
    """A table or a view, given to ``release`` as its data.

    ``address`` is what libpq takes: ``postgresql://user@host/database``, or ``host=… dbname=…``. It may hold
    a password, so it is never shown. A password is better kept in ``~/.pgpass`` or in ``PGPASSWORD``.
    ``schema`` is needed if the table is not on the search path.

    >>> PostgresTable("postgresql://ann:secret@db.example/clinic", "visits")
    PostgresTable(table='visits', schema=None)
    """

    address: str = field(repr=False)
    table: str
    schema: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.address, str) or not self.address:
            raise InvalidArgument(
                "'address' must be the address of a PostgreSQL database as text, and is not. "
                "Write 'postgresql://user@host/database'."
            )
        for name, value in (("table", self.table), ("schema", self.schema)):
            if name == "schema" and value is None:
                continue
            if not isinstance(value, str) or not value or "\x00" in value:
                raise InvalidArgument(f"'{name}' must be a name, got {format_value(value)}. Give it as text.")

    @staticmethod
    def is_url(text: str) -> bool:
        """Whether a text is the URL of a PostgreSQL database, and no path of a file."""
        return text.partition("://")[0].lower() in _SCHEMES and "://" in text

    @staticmethod
    def from_url(url: str) -> "PostgresTable":
        """The table that ``postgresql://…/database?table=visits`` names; ``&schema=`` names its schema.

        No error shows the URL, because it may hold a password.

        >>> PostgresTable.from_url("postgresql://db.example/clinic?table=visits&schema=public")
        PostgresTable(table='visits', schema='public')
        """
        try:
            parts = urlsplit(url)
            asked = parse_qsl(parts.query, keep_blank_values=True)
        except ValueError:
            parts, asked = None, []
        named = [value for key, value in asked if key == "table"]
        schemas = [value for key, value in asked if key == "schema"]
        if parts is None or len(named) != 1 or len(schemas) > 1:
            raise InvalidArgument(
                "The URL of a PostgreSQL database must name one table, and does not. "
                "Write postgresql://user@host/database?table=visits."
            )
        kept = [(key, value) for key, value in asked if key not in ("table", "schema")]
        address = urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(kept, quote_via=quote), ""))
        return PostgresTable(address, named[0], schemas[0] if schemas else None)

    @property
    def is_local(self) -> bool:
        """Whether the server is reached without a network, by a socket of this machine.

        >>> PostgresTable("postgresql:///clinic?host=/run/postgresql", "visits").is_local
        True
        >>> PostgresTable("host=db.example dbname=clinic", "visits").is_local
        False
        """
        hosts = [os.environ.get("PGHOST", ""), os.environ.get("PGHOSTADDR", "")]
        if PostgresTable.is_url(self.address):
            parts = urlsplit(self.address)
            asked = parse_qsl(parts.query)
            hosts = [unquote(parts.netloc.rpartition("@")[2]) or hosts[0], hosts[1]]
        else:
            words = [word.partition("=") for word in self.address.replace("'", " ").split()]
            asked = [(name, value) for name, _, value in words]
        hosts += [value for name, value in asked if name in ("host", "hostaddr", "service")]
        return all(host == "" or host.startswith(("/", "@")) for host in hosts)

    @property
    def name(self) -> str:
        """The table in words that may be shown and stored: host, database and table, without user and
        password.

        >>> PostgresTable.from_url("postgresql://ann:secret@db.example/clinic?table=visits").name
        'postgresql://db.example/clinic?table=visits'
        """
        place, parameters = "", list[tuple[str, str]]()
        if PostgresTable.is_url(self.address):
            parts = urlsplit(self.address)
            place = parts.netloc.rpartition("@")[2] + parts.path
            parameters = [pair for pair in parse_qsl(parts.query) if pair[0] in _PLACES]
        parameters.append(("table", self.table))
        if self.schema is not None:
            parameters.append(("schema", self.schema))
        return f"postgresql://{place}?{urlencode(parameters, quote_via=quote)}"
