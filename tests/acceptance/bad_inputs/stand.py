"""The deployment that bad input is thrown at, and the proof that it stands as it stood before.

`Stand` sends cases and remembers what was answered; `check_*` compare what there is with that.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadtests.rig.connection import Connection
from loadtests.rig.deployment import Deployment, complaints, model
from loadtests.rig.response import Response
from loadtests.rig.scrape import Admin
from loadtests.rig.waiting import until
from tests.acceptance.bad_inputs.case import (
    ALIAS,
    MAX_BODY_MB,
    MODEL,
    OTHER_MODEL,
    PLACEHOLDER,
    TYPES,
    Case,
    Reply,
)
from tests.acceptance.bad_inputs.parser import READ, REFUSED, WAITED_FOR

SETTINGS: dict[str, Any] = {
    "max_body_mb": MAX_BODY_MB,
    "models": [
        model(MODEL, "one", aliases=[ALIAS]),
        model(OTHER_MODEL, "one"),
        model(PLACEHOLDER, callable=False),
    ],
}
FUNDS_NANO_USD = 123_456_789_012
# Fewer than any leak of them would soon use up.
CONCURRENCY = 8
TRACE = re.compile(r"[0-9a-f]{32}")
PROBE = b"GET /api/v1/models/public HTTP/1.1\r\nHost: gateway\r\n\r\n"
# What no client may see: the upstream, its key, a channel's name, the inside of the gateway.
SECRETS = re.compile(rb"key-of-|127\.0\.0\.1|Traceback|File \"|postgres|sk-platform-[0-9a-f]{5}")


@dataclass
class Stand:
    """One deployment for a module."""

    deployment: Deployment
    traces: dict[str, Reply] = field(default_factory=dict)
    recorded: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.tenant = self.deployment.tenant(nano_usd=FUNDS_NANO_USD, concurrency=CONCURRENCY)
        allowed = self.deployment.another(self.tenant, allowed_models=[OTHER_MODEL])
        poor = self.deployment.tenant(nano_usd=0)
        key = self.tenant.key
        self._keys = {
            b"{KEY}": key.encode(),
            b"{KEY_DIGITS}": key.removeprefix("sk-platform-").encode(),
            b"{ALLOWED}": allowed.key.encode(),
            b"{POOR}": poor.key.encode(),
        }

    @property
    def url(self) -> str:
        return self.deployment.gateway.url

    @property
    def admin(self) -> Admin:
        return Admin(self.deployment.gateway.admin_url)

    def wire(self, template: bytes) -> bytes:
        """The bytes of a case with the keys put in."""
        for mark, key in self._keys.items():
            template = template.replace(mark, key)
        return template

    def check(self, case: Case) -> None:
        """Send a case and see that it is answered as the table says, and not otherwise."""
        with Connection(self.url) as connection:
            connection.send(self.wire(case.wire))
            responses, stays = self._expected(case)
            for expected in responses:
                has_body = not case.is_head
                response = connection.response(has_body=has_body)
                trace = self.check_response(response, expected, has_body=has_body)
                if case.is_recorded:
                    self.recorded.add(trace)
            if stays:
                connection.send(PROBE)
                assert connection.response().status == 200
            if stays or not responses:  # it would wait for more
                connection.end_sending()
            assert connection.rest() == b""

    def _expected(self, case: Case) -> tuple[tuple[Reply, ...], bool]:
        """The answers, and whether the connection stays."""
        if case.name in WAITED_FOR:
            return (), False
        if case.name in REFUSED:
            return (REFUSED[case.name],), False
        if case.name in READ:
            return (READ[case.name],), True
        return case.responses, case.stays

    def check_response(self, response: Response, expected: Reply, *, has_body: bool = True) -> str:
        """See that one answer is the expected one, in the first shape, and gives nothing away.

        Return its trace id.
        """
        assert response.status == expected.status, response
        trace = response.headers["x-gateway-trace"]
        assert TRACE.fullmatch(trace), response
        assert trace not in self.traces, "a trace id came twice"
        self.traces[trace] = expected
        assert "server" not in response.headers, response
        assert not any(name.startswith("x-ratelimit") for name in response.headers) or (
            expected.status == 200
        ), response
        assert response.headers["content-type"] == "application/json", response
        if expected.code is None or not has_body:
            return trace
        whole = response.json
        assert list(whole) == ["error"], whole
        error = whole["error"]
        assert list(error) == ["message", "type", "code"], error
        assert (error["code"], error["type"]) == (expected.code, TYPES[expected.code]), error
        assert expected.says in error["message"], error
        assert len(error["message"]) < 600, error
        assert not SECRETS.search(response.body), response
        return trace

    def check_quiet(self) -> None:
        """Nothing is in flight, nothing is held, no connection is left."""
        until(lambda: self._connections() == 0, what="no connection left")
        until(lambda: self.admin.page().total("gw_calls_in_flight") == 0, what="no call in flight")
        self.deployment.settled(self.tenant)
        assert self.deployment.query("SELECT * FROM holds") == []
        assert self.deployment.held_nano_usd(self.tenant) == 0

    def check_no_fault(self) -> None:
        """No answer was a 5xx, and nothing was logged as an error."""
        responses = self.admin.page().series("gw_http_responses_total")
        assert responses
        assert not [values for values in responses if values[1].startswith("5")], responses
        assert not complaints(self.deployment.gateway.lines)

    def check_rows(self) -> None:
        """Each row says what its client was told, costs nothing, and shows no key; none is lost."""
        until(lambda: self.recorded <= self._rows().keys(), what="a row of each refusal")
        for trace, row in self._rows().items():
            assert self.tenant.key not in str(row), row
            response = self.traces.get(trace)
            if response is not None and response.status != 200:
                assert (row["status"], row["error_code"]) == ("rejected", response.code), row
                assert row["cost_nano_usd"] == 0, row

    def resident_bytes(self) -> int:
        """Memory of the gateway's process."""
        status = Path(f"/proc/{self.deployment.gateway.popen.pid}/status").read_text(
            encoding="ascii"
        )
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def _rows(self) -> dict[str, dict[str, Any]]:
        rows = self.deployment.rows(self.tenant)
        return {row["request_id"].replace("-", ""): row for row in rows}

    def _connections(self) -> int:
        """Connections to the public listener that the kernel still knows as open."""
        port = int(self.url.rpartition(":")[2])
        table = Path(f"/proc/{self.deployment.gateway.popen.pid}/net/tcp").read_text(
            encoding="ascii"
        )
        rows = [line.split() for line in table.splitlines()[1:]]
        open_states = {"01", "08"}  # established, and closed by the client alone
        return sum(row[1].endswith(f":{port:04X}") and row[3] in open_states for row in rows)
