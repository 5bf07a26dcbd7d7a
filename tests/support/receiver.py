"""A receiver of webhooks: a server that notes what it is sent and answers as a test says."""

import hashlib
import hmac
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import ujson


@dataclass(frozen=True)
class Received:
    """One request. `at` is monotonic."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def event(self) -> dict[str, Any]:
        return dict(ujson.loads(self.body))

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def is_signed_by(self, secret: str) -> bool:
        """Whether one of the signatures is this secret's, as Standard Webhooks 1.0 has it."""
        key = b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        mine = b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return f"v1,{mine}" in self.headers["webhook-signature"].split(" ")


@dataclass(frozen=True)
class Answer:
    """What a request is answered, after `seconds`; `body` is sent whole."""

    status: int = 204
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 0.0


class Receiver:
    """Answers by `answer`, from threads; `received` has the requests in the order of arrival."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answer: Callable[[Received], Answer] = lambda _: Answer()
        self.under_way = self.most_under_way = 0
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                one = Received(self.path, headers, body, time.monotonic())
                with receiver._lock:
                    receiver.received.append(one)
                    receiver.under_way += 1
                    receiver.most_under_way = max(receiver.most_under_way, receiver.under_way)
                try:
                    answer = receiver.answer(one)
                    time.sleep(answer.seconds)
                finally:
                    with receiver._lock:
                        receiver.under_way -= 1
                try:
                    self.send_response(answer.status)
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    if answer.status != 204:
                        self.send_header("content-length", str(len(answer.body)))
                    self.end_headers()
                    self.wfile.write(answer.body)
                except OSError:
                    self.close_connection = True  # the sender has given up

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                pass  # a sender that was killed

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    @property
    def ids(self) -> list[str]:
        """The events, in the order of arrival."""
        return [one.id for one in self.received]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
