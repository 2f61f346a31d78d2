"""Pages for people: server-rendered, they work without a script, in light and dark, by keyboard and on a
phone.

``login_pages``, ``analyst_pages``, ``steward_pages`` and ``account_pages`` have the addresses; ``browsers``
knows who is logged in and that a form is one of ours; ``rendering`` fills the templates, which escape.
"""

from fastapi import FastAPI
from fastapi.responses import Response

from privet.curator.pages import account_pages, analyst_pages, login_pages, steward_pages
from privet.curator.pages.rendering import read_asset

__all__ = ["add_pages"]


def add_pages(app: FastAPI) -> None:
    """Add the pages, and the styles and the script that they load. They are not in the description."""
    for module in (login_pages, analyst_pages, steward_pages, account_pages):
        app.include_router(module.router, include_in_schema=False)
    app.add_api_route("/static/{name}", _send_asset, methods=["GET"], include_in_schema=False)


async def _send_asset(name: str) -> Response:
    content, kind = read_asset(name)
    return Response(content, media_type=kind)
