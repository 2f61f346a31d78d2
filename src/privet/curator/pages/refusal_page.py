"""What a person sees who is refused: the sentence, and a way back. Who is not logged in is sent to the
login.
"""

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from privet.curator.gateway.refusals_http import NOT_LOGGED_IN, RefusalAnswer
from privet.curator.pages.rendering import render

__all__ = ["render_refusal"]

_HEADINGS = {
    403: "Not allowed",
    404: "Nothing here",
    409: "Not possible now",
    422: "Not a question that can be asked",
    429: "Too often",
    503: "Not ready",
}


def render_refusal(request: Request, answer: RefusalAnswer) -> Response:
    """The page of a refusal."""
    if answer is NOT_LOGGED_IN and request.method in ("GET", "POST"):
        return RedirectResponse("/login", status_code=303)
    heading = _HEADINGS.get(answer.status, "Not possible")
    return render("refusal.html", {"heading": heading, "message": answer.message}, status=answer.status)
