"""The simulator as tests speak to it: standing faults, what it was sent, waiting on its counts."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from loadtests.rig.client import Body, Client

# The longest that the simulator waits.
WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Upstream:
    """Everything about the simulator at `url`; channels go by their api key."""

    url: str

    def reset(self) -> None:
        """Forget faults, requests and counters."""
        self._send("POST", "reset")

    def stats(self, channel: str | None = None) -> dict[str, Any]:
        """Counters of everything, or of one channel (zero when it was never used)."""
        stats: dict[str, Any] = self._send("GET", "stats")
        if channel is None:
            return stats
        unused = dict.fromkeys(("requests", "active", "completed", "cut", "cancelled_by_client"), 0)
        counted: dict[str, Any] = stats["by_key"].get(key_of(channel), unused)
        return counted

    def requested(self, *channels: str) -> list[int]:
        """How many requests each of these channels was sent."""
        by_key = self.stats()["by_key"]
        return [by_key.get(key_of(name), {"requests": 0})["requests"] for name in channels]

    def requests(self, last: int = 50) -> list[dict[str, Any]]:
        """The most recent requests as they came in, oldest first."""
        found: list[dict[str, Any]] = self._send("GET", f"requests?last={last}")["requests"]
        return found

    def last_request(self) -> dict[str, Any]:
        """The most recent request."""
        return self.requests(1)[0]

    def last_body(self) -> Any:
        """What its body says."""
        return json.loads(self.last_request()["body"])

    def wait(self, *, channel: str | None = None, **wanted: int) -> None:
        """Wait until counters get there (`cancelled=1`) or gauges equal (`active=0`)."""
        query: dict[str, Any] = {**wanted, "timeout": WAIT_SECONDS}
        if channel is not None:
            query["key"] = key_of(channel)
        found = self._send("GET", f"wait?{urlencode(query)}")
        assert found["is_met"], (wanted, found)

    def resume(self) -> None:
        """Let go on what a directive has paused."""
        self._send("POST", "resume")

    def finish(self) -> None:
        """Let every task end now, as planned."""
        self._send("POST", "finish")

    def fault(self, channel: str | None = None, **directive: Any) -> None:
        """Give a channel, or everybody, a standing directive."""
        self._send("PUT", f"faults{_name(channel)}", directive)

    def play(self, provider: str) -> str:
        """The address of one more port, which plays this provider."""
        address: str = self._send("PUT", f"providers/{provider}")["base_url"]
        return address

    def token_seconds(self, seconds: int) -> None:
        """How long the tokens are good that it hands out from now on, until it is reset."""
        self._send("POST", f"token-seconds/{seconds}")

    def heal(self, channel: str | None = None) -> None:
        """Take it away again."""
        self._send("DELETE", f"faults{_name(channel)}")

    def serve(self, body: bytes, *, channel: str = "one") -> bytes:
        """What the simulator itself serves for these bytes, the gateway left out."""
        response = Client(self.url, key_of(channel)).chat(body)
        assert response.status == 200, response
        return response.body

    def _send(self, method: str, what: str, body: Body = None) -> Any:
        response = Client(self.url, None).send(method, f"/_sim/{what}", body)
        # A wait that was not met is a 408.
        assert response.status in (200, 408), (method, what, response)
        return response.json


def key_of(channel: str) -> str:
    """The api key of a channel of the tests' configuration (`deployment.py`)."""
    return f"key-of-{channel}"


def _name(channel: str | None) -> str:
    return "" if channel is None else "/" + quote(key_of(channel), safe="")
