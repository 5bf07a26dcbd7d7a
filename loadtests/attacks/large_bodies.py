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

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from multiprocessing.sharedctypes import Synchronized
from typing import Any, NamedTuple

from loadtests.attacks.body_shapes import (
    FILMS,
    FRAMED_ANSWERS,
    FRAMED_REQUESTS,
    HEADS,
    HOSTILE_ANSWERS,
    REPLIES,
    SHAPES,
    WAYS,
    body_of,
    film_of,
)
from loadtests.attacks.deployments import fresh_deployment
from loadtests.rig.client import Client
from loadtests.rig.connection import Connection
from loadtests.rig.deployment import Deployment, channel, model

SPAWN = get_context("spawn")
SECONDS_MAX = 300
PROBE_SECONDS = 0.004
SILENCE_SECONDS = 3.0
FREE = {"input": "0", "output": "0"}
FILM_WIRES = ("plain", "ark", "openai")
FILM_RESPONSE = b'{"id":"task","status":"queued"}'
TRANSLATIONS = (
    "chat_to_messages",
    "chat_to_native",
    "messages_to_chat",
    "native_to_chat",
    "native_to_messages",
    *("responses_to_native", "responses_to_chat", "responses_to_messages"),
    *("chat_to_responses", "messages_to_responses", "native_to_responses"),
)


class _Answering(BaseHTTPRequestHandler):
    """Takes any request and gives the answer that its key names."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        left = int(self.headers.get("content-length", "0"))
        while left > 0:
            left -= len(self.rfile.read(min(left, 1 << 20))) or left
        key = next(value for value in self.headers.values() if "place:" in value)
        _, protocol, shape, size = key[key.index("place:") :].split(":")
        shape = shape.replace("_", " ")
        if shape in FRAMED_ANSWERS:
            self.wfile.write(FRAMED_ANSWERS[shape][1](int(size)))
            return
        response = FILM_RESPONSE if protocol == "videos" else REPLIES[protocol]
        if shape != "-":
            response = HOSTILE_ANSWERS[shape][1](int(size))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.wfile.write(head % len(response) + response)

    do_GET = do_POST


def serve_upstream(received: SimpleQueue[int]) -> None:
    """Be the upstream, which tells its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server:
        received.put(server.server_port)
        server.serve_forever()


def probe(longest: Synchronized[float], url: str) -> None:
    """Be the prober, which notes the longest wait since that was last set to nothing."""
    client = Client(url, None, Connection(url, timeout_seconds=SECONDS_MAX))
    while True:
        began = time.monotonic()
        client.get("/healthz")
        longest.value = max(longest.value, time.monotonic() - began)
        time.sleep(PROBE_SECONDS)


@contextmanager
def beside(target: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """A function as another process, ended afterwards."""
    process = SPAWN.Process(target=target, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


class Found(NamedTuple):
    """What one body did; times are in seconds."""

    shape: str
    way: str
    megabytes: float
    received: str
    seconds: float
    longest: float

    def __str__(self) -> str:
        return (
            f"| {self.shape} | {self.way} | {self.megabytes:.1f} MB | {self.received} |"
            f" {self.seconds:.2f} s | {1000 * self.longest:.1f} ms |"
        )


def sent(client: Client, path: str, body: bytes) -> str:
    """Send a request; the status of its answer, and its message where that is no 200."""
    try:
        reply = client.send("POST", path, body, headers={"content-type": "application/json"})
    except OSError as error:
        return f"lost: {type(error).__name__}"
    if reply.status == 200:
        return "lost: cut" if reply.is_broken else "200"
    try:
        message = reply.json["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = reply.body.decode("latin-1")
    return f"{reply.status} {message[:70]}"


def sent_raw(url: str, request: bytes) -> str:
    """Send bytes as they are; the statuses of the responses, the commonest first, and how many."""
    with Connection(url) as connection, ThreadPoolExecutor(1) as reader:
        received = reader.submit(connection.rest)
        connection.send(request)
        statuses = Counter(re.findall(rb"HTTP/1\.1 (\d{3}) ", received.result()))
    return ", ".join(f"{one.decode()} ×{count}" for one, count in statuses.most_common()) or "lost"


def attack(h: Deployment, only: str, size: int) -> Iterator[Found]:
    """One body after the other."""
    tenant, longest = h.tenant(), SPAWN.Value("d", 0.0)
    client, key = tenant.client, tenant.key.encode()
    with beside(probe, longest, h.gateway.admin_url):

        def measured(shape: str, way: str, path: str, body: bytes) -> Found:
            longest.value, began = 0.0, time.monotonic()
            reported = sent(client, path, body) if path else sent_raw(client.url, body)
            seconds = time.monotonic() - began
            time.sleep(0.3)  # what is let go of is let go of afterwards
            return Found(shape, way, len(body) / 2**20, reported, seconds, longest.value)

        while not longest.value:
            time.sleep(PROBE_SECONDS)
        longest.value = 0.0
        time.sleep(SILENCE_SECONDS)
        yield Found("silence", "", 0, "", SILENCE_SECONDS, longest.value)
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
                yield measured(shape, "as it is", "", fill(size).replace(b"%b", key, 1))
        for shape, (protocol, _) in {**HOSTILE_ANSWERS, **FRAMED_ANSWERS}.items():
            if re.search(only, shape):
                path = "/v1/chat/completions"
                body = HEADS[path] % f"hostile-{shape.replace(' ', '-')}".encode() + b"}"
                yield measured(shape, f"chat over {protocol}", path, body)


def settings(port: int, size: int) -> dict[str, Any]:
    """Channels whose key selects what their upstream answers, and a model for each."""
    places = {name: (name, f"place:{name}:-:0") for name in REPLIES}
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
    port = SPAWN.SimpleQueue()
    with beside(serve_upstream, port), fresh_deployment(**settings(port.get(), size)) as h:
        print("| shape | way | size | told | took | prober waited at most |")
        print("|---|---|---|---|---|---|")
        for found in attack(h, only, size):
            print(found, flush=True)
            is_well = is_well and not re.match("500|lost", found.received)
            is_well = is_well and found.longest * 1000 <= (longest or float("inf"))
    return is_well
