"""The console as a browser without scripts uses it: cookies, forms with their tokens, pages."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any

import requests

from loadtests.rig.deployment import Deployment
from loadtests.rig.waiting import PATIENCE_SECONDS

# Of the distribution's packages; ops/test installs it.
CHROMIUM = "/usr/bin/chromium"
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Visitor:
    """One browser: its cookies, and the page it looks at."""

    base: str
    web: requests.Session = field(default_factory=requests.Session)
    page: str = ""

    def get(self, path: str) -> requests.Response:
        """Open a page."""
        response = self.web.get(self.base + path, timeout=PATIENCE_SECONDS, allow_redirects=False)
        self.page = response.text
        return response

    def post(
        self, path: str, fields: Mapping[str, Any] | None = None, **headers: str
    ) -> requests.Response:
        """Send a form with the token of the page that is open; headers by names with `_`."""
        token = re.search(r'name="csrf" value="(\w+)"', self.page)
        body = {"csrf": token[1] if token else "", **(fields or {})}
        response = self.web.post(
            self.base + path,
            data=body,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            timeout=PATIENCE_SECONDS,
            allow_redirects=False,
        )
        if response.status_code == 200:
            self.page = response.text
        return response

    @property
    def text(self) -> str:
        """The page without its elements."""
        return unescape(re.sub(r"<[^>]*>", " ", self.page))


def link(h: Deployment, *whom: str) -> str:
    """A fresh link, made by the command line."""
    url: str = h.gw("console", "link", *(whom or ("--operator",)))["url"]
    return url


def visitor(h: Deployment, *whom: str) -> Visitor:
    """Somebody who has signed in: an operator, or `--account ID`."""
    base, _, path = link(h, *whom).partition("/sign-in/")
    found = Visitor(base)
    assert found.get(f"/sign-in/{path}").status_code == 200
    assert found.post(f"/sign-in/{path}").status_code == 303
    assert found.get("/").status_code == 200
    return found
