"""What stops a request to a page of the console, as a table; `test_guards.py` sends them all."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from gw.console import sessions
from gw.console.application import routes
from gw.console.page import Page
from gw.console.pages import CSRF_FIELD
from gw.http.served_path import IGNORED_BYTES_MAX
from gw.http.tornado.handler import METHODS
from tests.unit.console.fakes import OPERATOR, OWNER
from tests.unit.http import path_guards
from tests.unit.http.path_guards import PathGuard

FORM_TYPE = "application/x-www-form-urlencoded"
HEADING = """## Pages of the console

The rows are in `gw/console/application.py`; `tests/unit/console/test_guards.py` sends the requests.
The console serves until its process ends, while calls are drained too. Of more connections than it
has room for, the one used longest ago is closed that has no complete request.
"""


def body_of(page: Page, token: str, *, form: str | None = None) -> bytes:
    """The form that a page of this session sends."""
    given = sessions.form_token(token) if form is None else form
    return urlencode({CSRF_FIELD: given}).encode()


@dataclass(frozen=True, kw_only=True)
class Guard(PathGuard[Page]):
    """A guard of the console: `session` sends the request, with a form of its own unless `body`."""

    text: str  # its name among the texts of errors
    session: Callable[[Page], str] = lambda page: OPERATOR
    account: str = "acct_1"
    body: Callable[[Page], bytes] | None = None


def path_of(page: Page, account: str = "acct_1") -> str:
    """A path of the page."""
    path = re.sub(r"^/accounts/\([^)]*\)", f"/accounts/{account}", page.path)
    return re.sub(r"\([^)]*\)", "a", path)


def sends(page: Page) -> Sequence[str]:
    return [method for method in page.methods if method == "POST"]


def for_sessions(page: Page) -> Sequence[str]:
    return [method for method in page.methods if page.audience(method) != "everybody"]


def signed_forms(page: Page) -> Sequence[str]:
    return [method for method in for_sessions(page) if method == "POST"]


def for_operators(page: Page) -> Sequence[str]:
    return [method for method in page.methods if page.audience(method) == "operators"]


def of_account(page: Page) -> Sequence[str]:
    return for_sessions(page) if page.of_account else ()


def too_much(page: Page) -> bytes:
    return b"a" * (page.body_bytes_max + 1)


GUARDS = (
    Guard(
        name="size beyond reading",
        status=413,
        text="large",
        methods=sends,
        lines=lambda page: (f"Content-Length: {IGNORED_BYTES_MAX + 1}",),
        body=lambda page: b"",
        headers=lambda page, method: {"connection": "close"},
    ),
    Guard(
        name="unknown host",
        status=421,
        text="host",
        methods=lambda page: page.methods,
        host="rebound.example.com",
    ),
    Guard(
        name="method",
        status=405,
        text="method",
        methods=lambda page: [one for one in METHODS if one not in page.methods],
        headers=lambda page, method: {"allow": ", ".join(page.methods)},
    ),
    Guard(
        name="size of the form",
        status=413,
        text="large",
        methods=sends,
        body=too_much,
    ),
    Guard(
        name="size of its chunks",
        status=413,
        text="large",
        methods=sends,
        lines=lambda page: ("Transfer-Encoding: chunked",),
        body=lambda page: b"%x\r\n%b\r\n0\r\n\r\n" % (page.body_bytes_max + 1, too_much(page)),
    ),
    Guard(
        name="form of another site",
        status=403,
        text="origin",
        methods=sends,
        lines=lambda page: ("Origin: http://elsewhere.example",),
    ),
    Guard(
        name="form across sites",
        status=403,
        text="origin",
        methods=sends,
        lines=lambda page: ("Sec-Fetch-Site: cross-site",),
    ),
    Guard(
        name="no session",
        status=401,
        text="session",
        methods=for_sessions,
        session=lambda page: "",
    ),
    Guard(
        name="ended session",
        status=401,
        text="session",
        methods=for_sessions,
        session=lambda page: "ended",
    ),
    Guard(
        name="owner's session",
        status=404,
        text="not_found",
        methods=for_operators,
        session=lambda page: OWNER,
    ),
    Guard(
        name="other account",
        status=404,
        text="not_found",
        methods=of_account,
        session=lambda page: OWNER,
        account="acct_2",
    ),
    Guard(
        name="malformed form",
        status=400,
        text="request",
        methods=sends,
        lines=lambda page: ("Content-Type: multipart/form-data",),
    ),
    Guard(
        name="no form token",
        status=403,
        text="csrf",
        methods=signed_forms,
        body=lambda page: b"act=set",
    ),
    Guard(
        name="other session's form token",
        status=403,
        text="csrf",
        methods=signed_forms,
        body=lambda page: body_of(page, OWNER),
    ),
)


def section() -> str:
    """The part of the matrix that shows pages."""
    columns = ("Path", "Readers", "Form for", "Form bytes")
    return path_guards.section(
        HEADING, columns, GUARDS, ((page, _cells(page)) for page in routes())
    )


def _cells(page: Page) -> Sequence[str]:
    audience = page.audience("POST") if sends(page) else ""
    path = re.sub(r"\([^)]*\)", "…", page.path)
    size = str(page.body_bytes_max or "")
    return f"`{' '.join(page.methods)} {path}`", page.readers, audience, size
