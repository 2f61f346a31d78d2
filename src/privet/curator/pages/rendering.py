"""Templates: filled by Jinja, which escapes everything and refuses a name that is not there."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from privet import __version__
from privet.curator.gateway.refusals_http import NOT_FOUND, HttpRefusal
from privet.curator.pages.charts import draw_bars, draw_spending, draw_use
from privet.curator.pages.numbers_shown import moment, plain_number, show_left, show_spent, small
from privet.curator.pages.question_words import describe_question
from privet.curator.principals import Principal

__all__ = ["read_asset", "render"]

_ASSETS = {
    "report.css": ("privet.reporting", "text/css"),
    "curator.css": ("privet.curator.pages", "text/css"),
    "curator.js": ("privet.curator.pages", "text/javascript"),
    "icon.svg": ("privet.curator.pages", "image/svg+xml"),
}


def render(
    name: str, values: dict[str, Any], *, who: Principal | None = None, csrf: str = "", status: int = 200
) -> HTMLResponse:
    """A page. ``who`` is whose navigation it has, ``csrf`` the token of its forms."""
    page = _environment().get_template(name).render(**values, who=who, csrf=csrf)
    return HTMLResponse(page, status_code=status)


@cache
def read_asset(name: str) -> tuple[bytes, str]:
    """A style or script, with its media type."""
    if name not in _ASSETS:
        raise HttpRefusal(NOT_FOUND)
    package, kind = _ASSETS[name]
    return (files(package) / "assets" / name).read_bytes(), kind


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("privet.curator.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        spent=show_spent,
        left=show_left,
        small=small,
        moment=moment,
        number=plain_number,
        words=describe_question,
    )
    environment.globals.update(
        draw_bars=draw_bars,
        draw_spending=draw_spending,
        draw_use=draw_use,
        version=__version__,
        asset=_address_asset,
    )
    return environment


@cache
def _address_asset(name: str) -> str:
    """The address of an asset, with its hash: a browser keeps it until it changes."""
    return f"/static/{name}?v={sha256(read_asset(name)[0]).hexdigest()[:12]}"
