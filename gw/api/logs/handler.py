"""What the three endpoints of the call log share: their rate, told on every response, and no
agents.

Free at any balance and outside the account's limits (contract §5); a use of the key like any other.
A request counts as soon as its key is good, whatever becomes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from actors.limits.status import LimitStatus
from gw.api.base import ApiHandler
from gw.api.checks import GOOD_KEY, KIND_OF_KEY, Check, Checked
from gw.api.logs.services import LogServices
from gw.api.logs.visibility import Scope, Visibility, of_scope
from gw.errors.table import LOGS_RATE_LIMITED, PERMISSION_DENIED, GatewayError
from gw.keys.principal import AGENT

REQUESTS_PER_MINUTE = 60


class LogRate(Check):
    """429 when the key has asked the call log too often (spec: Limits, Log API rate).

    The count may be other processes' too: its keeper is always asked.
    """

    def try_now(self, checked: Checked) -> bool:
        return False

    async def ask(self, checked: Checked) -> None:
        assert isinstance(checked, LogsHandler)
        status = await checked.logs.rates.take(
            f"logs:{checked.principal.key_id}", REQUESTS_PER_MINUTE
        )
        checked.report_rate(status)
        if status.refused is not None and checked.principal.kind != AGENT:
            wait_seconds = status.retry_after_seconds
            raise GatewayError(
                LOGS_RATE_LIMITED,
                f"This key has made {REQUESTS_PER_MINUTE} requests to the call logs within a"
                f" minute. Try again in {wait_seconds} s.",
                headers={"Retry-After": str(wait_seconds)},
            )


class LogsHandler(ApiHandler):
    """One request to the call log: 401, then 403 for an agent key, then 429.

    The rate is asked before the 403, whose response tells it, too; it refuses no agent key.
    """

    every_check = (GOOD_KEY, LogRate(), KIND_OF_KEY)

    _rate_headers: Mapping[str, str] = MappingProxyType({})

    @property
    def logs(self) -> LogServices:
        return cast(LogServices, self.settings["logs"])

    def visibility(self, scope: Scope) -> Visibility:
        """What the key sees in this scope; 403 when it is closed to it."""
        visibility = of_scope(self.principal, scope)
        if visibility is None:
            raise GatewayError(
                PERMISSION_DENIED,
                "This key may read its own calls only (`scope=key`). A console key reads the whole"
                " account's when its account-wide log access is switched on.",
            )
        return visibility

    def report_rate(self, status: LimitStatus) -> None:
        """Tell the key's rate on the response, whatever becomes of it."""
        self._rate_headers = rate_headers(status)
        self._set_rate_headers()

    def set_default_headers(self) -> None:
        super().set_default_headers()  # an error clears the headers and comes through here
        self._set_rate_headers()

    def _set_rate_headers(self) -> None:
        for name, value in self._rate_headers.items():
            self.set_header(name, value)


def rate_headers(status: LimitStatus) -> dict[str, str]:
    """The headers of spec: Limits, Log API rate."""
    return {
        "x-ratelimit-limit": str(REQUESTS_PER_MINUTE),
        "x-ratelimit-remaining": str(max(0, REQUESTS_PER_MINUTE - status.requests)),
        "x-ratelimit-reset": str(status.reset_whole_seconds),
    }
