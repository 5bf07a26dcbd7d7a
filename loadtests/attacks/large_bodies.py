"""Large bodies of every hostile shape: how long does one hold up the whole process?

    python -m loadtests large_bodies [--megabytes 60] [--only SHAPE] [--longest MS]

Starts a gateway, an upstream that takes anything, and a prober that asks `/healthz` every few
milliseconds all the while. Sends one body after the other, natively and over translations, then
requests and answers that are framed in tiny pieces, and hostile answers. Prints for each what the
client received, how long that took, and the longest that the prober waited for its answer; first
the same in silence. Exits 1 if a client received a fault of the gateway's, or the prober waited
longer than `--longest` milliseconds. Figures: `ops/measurements.md`.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from loadtests.attacks.body_shapes import (
    ANSWERS,
    FILMS,
    FRAMED_ANSWERS,
    FRAMED_REQUESTS,
    HEADS,
    HOSTILE_ANSWERS,
    SHAPES,
    WAYS,
    body_of,
    film_of,
)
from loadtests.attacks.houses import fresh_house
from tests.support.house import House, channel, model

MODULE = "loadtests.attacks.large_bodies"
SECONDS_MAX = 300
PROBE_SECONDS = 0.004
SILENCE_SECONDS = 3.0
FREE = {"input": "0", "output": "0"}
FILM_WIRES = ("plain", "ark", "openai")
FILM_ANSWER = b'{"id":"task","status":"queued"}'
TRANSLATIONS = (
    "chat_to_messages",
    "chat_to_native",
    "messages_to_chat",
    "native_to_chat",
    "native_to_messages",
    *("responses_to_native", "responses_to_chat", "responses_to_messages"),
    *("chat_to_responses", "messages_to_responses", "native_to_responses"),
)


class _Upstream(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Takes any request and gives the answer that its key names."""

    daemon_threads = True
    request_queue_size = 64


class _Answering(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while self.rfile.readline():
            length, place = 0, ""
            while (header := self.rfile.readline().lower()) not in (b"\r\n", b""):
                if header.startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
                if (found := header.find(b"place:")) >= 0:
                    place = header[found:].decode().strip()
            while length > 0:
                length -= len(self.rfile.read(min(length, 1 << 20))) or length
            _, protocol, shape, size = place.split(":")
            shape = shape.replace("_", " ")
            if shape in FRAMED_ANSWERS:
                self.wfile.write(FRAMED_ANSWERS[shape][1](int(size)))
                continue
            answer = FILM_ANSWER if protocol == "videos" else ANSWERS[protocol]
            if shape != "-":
                answer = HOSTILE_ANSWERS[shape][1](int(size))
            head = (
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            )
            self.wfile.write(head % len(answer) + answer)


def serve_upstream() -> None:
    """Be the upstream, until the end of standard input."""
    with _Upstream(("127.0.0.1", 0), _Answering) as server:
        print(server.server_address[1], flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()


def probe(url: str) -> None:
    """Be the prober: each line on standard input ends a window, whose longest wait is printed."""
    longest = [0.0]

    def ask() -> None:
        connection = connected(url)
        while True:
            began = time.monotonic()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            longest[0] = max(longest[0], time.monotonic() - began)
            time.sleep(PROBE_SECONDS)

    threading.Thread(target=ask, daemon=True).start()
    for _ in sys.stdin:
        print(longest[0], flush=True)
        longest[0] = 0.0


def connected(url: str) -> http.client.HTTPConnection:
    """A connection to the host of an address."""
    address = urlsplit(url)
    assert address.hostname is not None
    return http.client.HTTPConnection(address.hostname, address.port, timeout=SECONDS_MAX)


@contextmanager
def helper(*arguments: str) -> Iterator[Callable[[], str]]:
    """This module again, as another process, ended afterwards; a call gives its next line."""
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def asked() -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline()

    try:
        yield asked
    finally:
        process.kill()
        process.communicate()


class Found(NamedTuple):
    """What one body did; times are in seconds."""

    shape: str
    way: str
    megabytes: float
    told: str
    seconds: float
    longest: float

    def __str__(self) -> str:
        return (
            f"| {self.shape} | {self.way} | {self.megabytes:.1f} MB | {self.told} |"
            f" {self.seconds:.2f} s | {1000 * self.longest:.1f} ms |"
        )


def sent(h: House, key: str, path: str, body: bytes) -> str:
    """Send a request; the status of its answer, and its message where that is no 200."""
    connection = connected(h.gateway.url)
    try:
        headers = {"x-api-key": key, "content-type": "application/json"}
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        said = response.read()
    except (OSError, http.client.HTTPException) as error:
        return f"lost: {type(error).__name__}"
    finally:
        connection.close()
    if response.status == 200:
        return "200"
    try:
        message = json.loads(said)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = said.decode("latin-1")
    return f"{response.status} {message[:70]}"


def sent_raw(h: House, request: bytes) -> str:
    """Send bytes as they are; the statuses of the responses, the commonest first, and how many."""
    address = urlsplit(h.gateway.url)
    assert address.hostname is not None
    assert address.port is not None
    received: list[bytes] = []
    with socket.create_connection((address.hostname, address.port), timeout=SECONDS_MAX) as sock:

        def receive() -> None:
            with suppress(OSError):
                while piece := sock.recv(1 << 16):
                    received.append(piece)

        reader = threading.Thread(target=receive)
        reader.start()
        try:
            sock.sendall(request)
        except OSError as error:
            received.append(f"lost: {type(error).__name__}".encode())
        reader.join()
    statuses = Counter(re.findall(rb"HTTP/1\.1 (\d{3}) ", b"".join(received)))
    return ", ".join(f"{one.decode()} ×{count}" for one, count in statuses.most_common()) or "lost"


def attack(h: House, key: str, only: str, size: int) -> Iterator[Found]:
    """One body after the other."""
    with helper("--probe", h.gateway.admin_url) as prober:

        def measured(shape: str, way: str, path: str, body: bytes) -> Found:
            prober()
            began = time.monotonic()
            told = sent(h, key, path, body) if path else sent_raw(h, body)
            seconds = time.monotonic() - began
            time.sleep(0.3)  # what is let go of is let go of afterwards
            return Found(shape, way, len(body) / 2**20, told, seconds, float(prober()))

        prober()
        time.sleep(SILENCE_SECONDS)
        yield Found("silence", "", 0, "", SILENCE_SECONDS, float(prober()))
        for shape, (path, *_) in SHAPES.items():
            for protocol in WAYS[path] if re.search(only, shape) else ():
                where, body = body_of(shape, f"over-{protocol}", size)
                yield measured(shape, f"{path} over {protocol}", where, body)
        for shape in FILMS:
            for wire in FILM_WIRES if re.search(only, shape) else ():
                body = film_of(shape, f"film-{wire}", size)
                yield measured(shape, f"a film over {wire}", "/v1/videos/generations", body)
        for shape, fill in FRAMED_REQUESTS.items():
            if re.search(only, shape):
                yield measured(shape, "as it is", "", fill(size).replace(b"%b", key.encode(), 1))
        for shape, (protocol, _) in {**HOSTILE_ANSWERS, **FRAMED_ANSWERS}.items():
            if re.search(only, shape):
                path = "/v1/chat/completions"
                body = HEADS[path] % f"hostile-{shape.replace(' ', '-')}".encode() + b"}"
                yield measured(shape, f"chat over {protocol}", path, body)


def settings(port: str, size: int) -> dict[str, Any]:
    """Channels whose key selects what their upstream answers, and a model for each."""
    places = {name: (name, f"place:{name}:-:0") for name in ANSWERS}
    for shape, (protocol, _) in {**HOSTILE_ANSWERS, **FRAMED_ANSWERS}.items():
        place = f"place:{protocol}:{shape.replace(' ', '_')}:{size}"
        places["hostile-" + shape.replace(" ", "-")] = (protocol, place)
    there = {"base_url": f"http://127.0.0.1:{port}"}
    channels = [
        channel(name, protocols=[protocol], api_key=place, **there)
        for name, (protocol, place) in places.items()
    ]
    models = [
        model(name if name.startswith("hostile") else f"over-{name}", name, price=FREE)
        for name in places
    ]
    film = {"endpoint_type": "videos_generations", "price": {"per_second": "0"}}
    for wire in FILM_WIRES:
        name = f"film-{wire}"
        spoken = {"protocols": ["videos"], "wire": {"videos": wire}}
        channels.append(channel(name, api_key="place:videos:-:0", **spoken, **there))
        models.append(model(name, name, **film))
    return {"translations": list(TRANSLATIONS), "channels": channels, "models": models}


def large_bodies(megabytes: float = 60.0, only: str = "", longest: float = 0.0) -> bool:
    """The shapes in whose name `only` is found; `longest` 0 allows the prober any wait."""
    size = int(megabytes * 2**20)
    is_well = True
    with helper("--upstream") as upstream, fresh_house(**settings(upstream().strip(), size)) as h:
        print("| shape | way | size | told | took | prober waited at most |")
        print("|---|---|---|---|---|---|")
        for found in attack(h, h.tenant().key, only, size):
            print(found, flush=True)
            is_well = is_well and not re.match("500|lost", found.told)
            is_well = is_well and found.longest * 1000 <= (longest or float("inf"))
    return is_well


if __name__ == "__main__":
    serve_upstream() if sys.argv[1] == "--upstream" else probe(sys.argv[2])
