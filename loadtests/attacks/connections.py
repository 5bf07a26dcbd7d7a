"""A thousand hostile connections of each kind: what does a gateway process hold of them?

    python -m loadtests connections [--connections 1000] [--seconds 5] [--kind "slow head"]
    python -m loadtests connections --kind "idle, few files"

Each kind gets a gateway of its own. Every connection sends what the gateway takes of it for so many
seconds, and reads nothing. Prints the memory of the process before, at the most, and once they have
left, what that is for each connection, and how long a stranger waited for an answer meanwhile;
exits 1 if a connection holds more than CONNECTION_BYTES_MAX, or if no client is answered once they
have left. The kind "one body" is one of 12 MB in chunks of two bytes. The kind "idle, few files"
gives the process FEW_FILES, fills them with clients that have had a response and stay, and exits 1
unless every new one is served and those that have been idle for longest are closed for it.
"""

from __future__ import annotations

import resource
import selectors
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from gw.http.connection import CONNECTION_BYTES_MAX
from loadtests.attacks.body_shapes import in_chunks
from loadtests.attacks.deployments import fresh_deployment
from loadtests.rig.client import Client
from loadtests.rig.connection import Connection
from loadtests.rig.deployment import Deployment
from loadtests.rig.machine import resident_mb
from loadtests.rig.scrape import Admin

# What the interpreter and the allocator need beside what is held: arenas and free lists.
SLACK = 1.5
KB, MB = 1024, 1024 * 1024
# Free memory that `gw/runtime/memory.py` lets a process keep, once and not for each body.
KEPT_BYTES = 8 * MB
# Of which clients may have half, less what the process keeps for itself.
FEW_FILES = 400
# No attack goes on beyond this: it has shown enough.
ENOUGH_BYTES = 3000 * MB

HOST = b"Host: a\r\n"
GET = b"GET /v1/models HTTP/1.1\r\n" + HOST + b"\r\n"
LINES = b"".join(b"X-Name-%03d: %s\r\n" % (number, b"y" * 200) for number in range(250))


def head(path: bytes, *lines: bytes) -> bytes:
    return (
        b"POST %b HTTP/1.1\r\n" % path + HOST + b"".join(b"%b\r\n" % one for one in lines) + b"\r\n"
    )


CHAT = b"/v1/chat/completions"
FREE_PATH = "/api/v1/models/public"


def kinds(key: str) -> Mapping[str, tuple[bytes, bool, bool]]:
    """What is sent; whether slowly, in parts; whether the sending side is closed after it."""
    chunked = b"Transfer-Encoding: chunked"
    bearer = b"Authorization: Bearer " + key.encode()
    return {
        "slow head": (b"GET / HTTP/1.1\r\n" + HOST + LINES, True, False),
        "slow body": (head(CHAT, b"Content-Length: 60000") + b"x" * 59_000, True, False),
        "slow body with a key": (
            head(CHAT, bearer, b"Content-Length: 60000") + b"x" * 59_000,
            True,
            False,
        ),
        "unread answers": (GET * (4 * MB // len(GET)), False, False),
        "unread answers, half closed": (GET * (64 * KB // len(GET)), False, True),
        "pipelined large heads": ((GET[:-2] + LINES + b"\r\n") * 64, False, False),
        "tiny chunks": (head(CHAT, chunked) + in_chunks(b"x" * MB, 2), False, False),
        "tiny chunks with a key": (
            head(CHAT, bearer, chunked) + in_chunks(b"x" * 100 * KB, 2)[:-5],
            False,
            False,
        ),
    }


class Attack:
    """So many connections that send the same."""

    def __init__(
        self, url: str, sent: bytes, *, connections: int, is_slow: bool, ends: bool
    ) -> None:
        self._sent = memoryview(sent)
        self._ends = ends
        self._is_slow = is_slow
        self._selector = selectors.DefaultSelector()
        self.sent_bytes = 0
        self.ended = 0
        host, _, port = url.rpartition("/")[2].rpartition(":")
        for _ in range(connections):
            sock = socket.create_connection((host, int(port)))
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_WRITE, 0)

    def go_on(self, seconds: float) -> None:
        """Send what is taken within so many seconds."""
        end = time.monotonic() + seconds
        allowed = 0 if self._is_slow else len(self._sent)
        while (left := end - time.monotonic()) > 0 and self._selector.get_map():
            if self._is_slow:
                allowed = min(len(self._sent), int(len(self._sent) * (1 - left / seconds)) + 1)
            for key, _ in self._selector.select(min(left, 0.1)):
                self._send(key, allowed)
            if self._is_slow:
                time.sleep(0.02)

    def _send(self, key: selectors.SelectorKey, allowed: int) -> None:
        sock = key.fileobj
        assert isinstance(sock, socket.socket)
        at = key.data
        try:
            count = sock.send(self._sent[at : min(allowed, at + 256 * KB)])
        except BlockingIOError:
            return
        except OSError:
            self.ended += 1
            self._selector.unregister(sock)
            sock.close()
            return
        self.sent_bytes += count
        if at + count == len(self._sent) and self._ends:
            sock.shutdown(socket.SHUT_WR)
        if at + count < len(self._sent) or self._is_slow:
            self._selector.modify(sock, selectors.EVENT_WRITE, at + count)

    def leave(self) -> None:
        """Close them all."""
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()


def resident_bytes(h: Deployment) -> int:
    """The memory of the gateway's process."""
    return round(resident_mb(h.gateway.popen.pid) * 1e6)


def wait_ms(h: Deployment) -> float:
    """How long another client waits for an answer; infinite where there is none in 20 s."""
    start = time.monotonic()
    try:
        with Connection(h.gateway.url, timeout_seconds=20) as connection:
            Client(h.gateway.url, None, connection).get(FREE_PATH)
    except OSError:
        return float("inf")
    return (time.monotonic() - start) * 1000


@contextmanager
def served_deployment() -> Iterator[Deployment]:
    """A gateway that has served a stranger and a call."""
    with fresh_deployment(template="template0") as h:
        wait_ms(h)
        assert h.client.chat().status == 200
        yield h


def attack(kind: str, *, connections: int, seconds: float) -> bool:
    """One kind; True when the gateway holds no more than it may."""
    with served_deployment() as h:
        sent, is_slow, ends = kinds(h.key)[kind]
        before = most = resident_bytes(h)
        hostile = Attack(h.gateway.url, sent, connections=connections, is_slow=is_slow, ends=ends)
        longest_ms = 0.0
        for _ in range(5):
            hostile.go_on(seconds / 5)
            most = max(most, resident_bytes(h))
            longest_ms = max(longest_ms, wait_ms(h))
            if most > ENOUGH_BYTES:
                break
        hostile.leave()
        after_ms = wait_ms(h)
        after = resident_bytes(h)
    each = (most - before) / connections
    print(
        f"{kind}: {connections} connections sent {hostile.sent_bytes / MB:.0f} MB;"
        f" before {before / MB:.0f} MB, at most {most / MB:.0f} MB ({each / KB:.0f} KB each),"
        f" after {after / MB:.0f} MB; others waited {longest_ms:.0f} ms, then {after_ms:.0f} ms",
        flush=True,
    )
    return each <= SLACK * CONNECTION_BYTES_MAX and after_ms < float("inf")


def tiny_chunks_of_one_body(size_bytes: int = 12 * MB) -> bool:
    """One body in chunks of two bytes; True when it takes no more than one and a half its size.

    And what the allocator keeps of its smaller buffers, which may be none of it.
    """
    with served_deployment() as h:
        bearer = b"Authorization: Bearer " + h.key.encode()
        sent = (
            head(CHAT, bearer, b"Transfer-Encoding: chunked") + in_chunks(b"x" * size_bytes, 2)[:-5]
        )
        before = resident_bytes(h)
        hostile = Attack(h.gateway.url, sent, connections=1, is_slow=False, ends=False)
        while hostile.sent_bytes < len(sent) and not hostile.ended:
            hostile.go_on(0.2)
        wait_ms(h)
        more = resident_bytes(h) - before
        hostile.leave()
    print(
        f"one body: {size_bytes / MB:.0f} MB in chunks of two bytes: {more / MB:+.1f} MB,"
        f" {more / size_bytes:.2f} times its size",
        flush=True,
    )
    return more <= 1.5 * size_bytes + KEPT_BYTES


def files(h: Deployment) -> dict[str, float]:
    """What the gateway reports of its files and clients."""
    shown = {**h.metrics("gw_files"), **h.metrics("gw_http_connections")}
    shown |= {f"freed {part}": n for part, n in h.metrics("gw_files_freed_total").items()}
    shown |= {
        f"refused {why}": n for why, n in h.metrics("gw_http_connections_refused_total").items()
    }
    return {label.replace('"', ""): count for label, count in shown.items() if count}


def status_of(client: Client) -> int:
    """The status of a response on a connection; 0 where it is hung up on."""
    try:
        return client.get(FREE_PATH).status
    except OSError:
        return 0


def idle_with_few_files(connections: int) -> bool:
    """Idle kept connections beyond what the process may have; True when every client is served."""
    with served_deployment() as h, ExitStack() as stack:
        pid = h.gateway.popen.pid
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))
        print(f"idle, few files: {FEW_FILES} files; before {files(h)}", flush=True)
        idle: list[Connection] = []
        refused = 0
        for _ in range(connections):
            one = stack.enter_context(Connection(h.gateway.url, timeout_seconds=20))
            refused += status_of(Client(h.gateway.url, None, one)) != 200
            idle.append(one)
        try:
            call = h.client.chat().status
        except OSError:
            call = 0
        closed = [one.is_closed for one in idle]
        oldest = [*closed, False].index(False)
        ready = Admin(h.gateway.admin_url).get("/readyz").status
        print(
            f"  after {connections} clients that stay: {files(h)}; {refused} of them refused,"
            f" the oldest {oldest} closed and {sum(closed) - oldest} younger ones;"
            f" a call {call}, /readyz {ready}",
            flush=True,
        )
    return not refused and sum(closed) == oldest > 0 and (call, ready) == (200, 200)


def connections(connections: int = 1000, seconds: float = 5.0, kind: Sequence[str] = ()) -> bool:
    """Every kind, or those that are named."""
    others = {
        "one body": tiny_chunks_of_one_body,
        "idle, few files": lambda: idle_with_few_files(connections),
    }
    is_well = True
    for one in kind or (*kinds(""), *others):
        if one in others:
            is_well &= others[one]()
        else:
            is_well &= attack(one, connections=connections, seconds=seconds)
    return is_well
