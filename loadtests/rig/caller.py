"""A client that keeps its connection, as most libraries do, and says what became of each call."""

import http.client
import json
import select
from typing import Any
from urllib.parse import urlsplit

from loadtests.rig.client import CHAT, chat_body
from loadtests.rig.waiting import PATIENCE_SECONDS


class Caller:
    """A client that keeps its connection, and tries again when it is refused one, only then."""

    def __init__(self, url: str, key: str) -> None:
        self._connection = http.client.HTTPConnection(
            urlsplit(url).netloc, timeout=PATIENCE_SECONDS
        )
        self._headers = {"Authorization": f"Bearer {key}"}

    def begin(self, **members: Any) -> http.client.HTTPResponse:
        """Send a call, and return its answer when its head is there."""
        body = json.dumps(chat_body(**members)).encode()
        self._connection.request("POST", CHAT, body, self._headers)
        return self._connection.getresponse()

    def get(self, path: str, *, timeout_seconds: float) -> int:
        """The status of a response that comes in time. Raises TimeoutError."""
        self._connection.timeout = timeout_seconds
        self._connection.request("GET", path, headers=self._headers)
        response = self._connection.getresponse()
        response.read()
        self._connection.sock.settimeout(PATIENCE_SECONDS)
        return response.status

    def call(self, **members: Any) -> str:
        """What became of one call."""
        try:
            return outcome(self.begin(**members), is_stream=bool(members.get("stream")))
        except ConnectionRefusedError:
            return "refused"
        except http.client.RemoteDisconnected:
            return "closed"
        except ConnectionError as error:
            return type(error).__name__

    @property
    def is_closed(self) -> bool:
        """Has the server closed the connection, on which nothing is under way?"""
        return bool(select.select([self._connection.sock], [], [], 0)[0])

    def close(self) -> None:
        self._connection.close()


def outcome(reply: http.client.HTTPResponse, *, is_stream: bool) -> str:
    """What a client says of an answer that has begun."""
    try:
        body = reply.read()
    except (http.client.IncompleteRead, ConnectionError):
        return f"cut {reply.status}"
    if reply.status == 503:
        is_told = reply.headers["Retry-After"] and reply.headers["Connection"] == "close"
        return "asked to come back" if is_told else "503"
    is_whole = not is_stream or body.endswith(b"data: [DONE]\n\n")
    return str(reply.status) if is_whole else f"cut {reply.status}"
