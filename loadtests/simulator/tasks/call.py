"""What a wire's functions are given and give back, and the files that their links lead to.

A link describes its file whole, `/_files/film/5000-16x9-7-0/ID.mp4?expires=…&signature=…`, so none
is kept: it is made when it is fetched. `file_bytes` makes a film as large as is wanted by a box
that players skip; those bytes are never in memory at once.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import JSON, bearer
from loadtests.simulator.directives import Directive
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.film import film, padded, png
from loadtests.simulator.sound import FORMATS
from loadtests.simulator.tasks.task import SUCCEEDED, Plan, Task, TaskBook, plan_of

PREFIX: Final = "/_files/"
PIECE_BYTES: Final = 64 * 1024
FILES_KEPT: Final = 16
SECONDS_MAX: Final = 3600.0
SOUND_SECONDS_MAX: Final = 300.0
_PATH: Final = re.compile(
    r"/_files/(film|sound|picture)/(\d{1,8})-(\d{1,5})x(\d{1,5})-(\d{1,5})-(\d{1,10})"
    r"/[0-9A-Za-z_.-]{1,80}\.([a-z0-9]{2,4})"
)
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_ZEROS: Final = bytes(PIECE_BYTES)


@dataclass(frozen=True, slots=True)
class File:
    """A file as its link names it: milliseconds, ratio, looks, least size."""

    kind: str
    millis: int
    ratio: tuple[int, int]
    seed: int
    size: int
    extension: str

    @property
    def content_type(self) -> bytes:
        if self.kind == "film":
            return b"video/mp4"
        if self.kind == "picture":
            return b"image/png"
        return FORMATS[self.extension][0].encode()

    def path(self, name: str) -> str:
        wide, high = self.ratio
        facts = f"{self.millis}-{wide}x{high}-{self.seed}-{self.size}"
        return f"{PREFIX}{self.kind}/{facts}/{name}.{self.extension}"


@dataclass(frozen=True, slots=True)
class Part:
    """What of a file is sent: status, header lines and the bytes in pieces."""

    status: int
    lines: bytes
    pieces: list[bytes]
    content_type: bytes


class Files:
    """Signs links and answers them."""

    def __init__(self, seed: int) -> None:
        self._secret = b"files of %d" % seed

    def link(self, base: str, file: File, name: str, expires_at: float) -> str:
        """A link to a file at the address that was asked, good until `expires_at`."""
        path = file.path(name)
        expires = int(expires_at)
        return f"{base}{path}?expires={expires}&signature={self._signature(path, expires)}"

    def open(self, exchange: Exchange, now: float) -> Part:
        """The file of a request; raises Refusal for a link that is not, or no longer, good."""
        file = file_of(exchange.path)
        query = exchange.parameters()
        expires = query.get("expires", "")
        if file is None or not expires.isdecimal() or len(expires) > 18:
            raise Refusal(404, "NoSuchKey: The specified key does not exist.")
        signature = self._signature(exchange.path, int(expires))
        if not hmac.compare_digest(signature, query.get("signature", "")):
            raise Refusal(403, "SignatureDoesNotMatch: The signature does not match.")
        if now >= int(expires):
            raise Refusal(403, "AccessDenied: Request has expired.")
        return part_of(file, exchange)

    def _signature(self, path: str, expires: int) -> str:
        told = f"{path}\n{expires}".encode()
        return blake2b(told, key=self._secret, digest_size=16).hexdigest()


def base_of(exchange: Exchange) -> str:
    """The address that was asked, for links."""
    host = exchange.header(b"host").decode("latin-1") or "simulator.invalid"
    return f"http://{host}"


def film_file(seconds: float, ratio: tuple[int, int], seed: int, size: int = 0) -> File:
    return File("film", _millis(seconds, SECONDS_MAX), ratio, seed, size, "mp4")


def sound_file(seconds: float, seed: int, extension: str = "mp3") -> File:
    return File("sound", _millis(seconds, SOUND_SECONDS_MAX), (1, 1), seed, 0, extension)


def picture_file(seed: int) -> File:
    return File("picture", 0, (16, 9), seed, 0, "png")


def file_of(path: str) -> File | None:
    """The file that a path names."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    kind, millis, wide, high, seed, size, extension = match.groups()
    if extension not in {"film": ("mp4",), "picture": ("png",)}.get(kind, tuple(FORMATS)):
        return None
    return File(kind, int(millis), (int(wide), int(high)), int(seed), int(size), extension)


@lru_cache(maxsize=FILES_KEPT)
def made(file: File) -> tuple[bytes, int]:
    """The bytes of a file, and how many zeros follow them."""
    if file.kind == "film":
        return padded(film(file.millis / 1000, ratio=file.ratio, seed=file.seed), file.size)
    if file.kind == "picture":
        return png(file.seed, min(file.size, PIECE_BYTES)), 0
    return FORMATS[file.extension][1](file.millis / 1000, file.seed), 0


def part_of(file: File, exchange: Exchange) -> Part:
    """A file, or the range of it that the request names (RFC 9110, 14); raises Refusal 416."""
    data, zeros = made(file)
    size = len(data) + zeros
    tag = b'"%b"' % blake2b(file.path("").encode(), digest_size=8).hexdigest().encode()
    lines = b"Accept-Ranges: bytes\r\nETag: %b\r\n" % tag
    match = _RANGE.fullmatch(exchange.header(b"range").decode("latin-1"))
    condition = exchange.header(b"if-range")
    start, end, status = 0, size, 200
    if match is not None and match.group() != "bytes=-" and condition in (b"", tag):
        first, last = match.groups()
        start = int(first) if first else max(0, size - int(last))
        end = min(size, int(last) + 1) if first and last else size
        if start >= end:
            raise Refusal(416, f"InvalidRange: bytes */{size}")
        status = 206
        lines += b"Content-Range: bytes %d-%d/%d\r\n" % (start, end - 1, size)
    lines += b"Content-Length: %d\r\n" % (end - start)
    pieces = [] if exchange.method == "HEAD" else _pieces(data, start, end)
    return Part(status, lines, pieces, file.content_type)


def _pieces(data: bytes, start: int, end: int) -> list[bytes]:
    """The bytes from `start` to `end` of the data and the zeros behind it."""
    pieces = []
    for at in range(start, min(end, len(data)), PIECE_BYTES):
        pieces.append(data[at : min(end, len(data), at + PIECE_BYTES)])
    left = end - max(start, len(data))
    while left > 0:
        pieces.append(_ZEROS if left >= PIECE_BYTES else _ZEROS[:left])
        left -= PIECE_BYTES
    return pieces


def _millis(seconds: float, longest: float) -> int:
    return max(1, round(min(seconds, longest) * 1000))


Json = dict[str, Any]

DAY: Final = 86_400.0


class WireRefusal(Refusal):
    """A refusal with the wire's own word or number for it."""

    def __init__(self, status: int, message: str, code: int | str) -> None:
        super().__init__(status, message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; pieces in place of a body where it is long."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON
    lines: bytes = b""  # more header lines
    pieces: list[bytes] | None = None


SUBMIT: Final = "submit"


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint; in its path `*` stands where anything may. `part` is its part of directives."""

    method: str
    path: str
    part: str
    wire: Wire
    handler: Handler
    query: str  # the parameter that names the task, where the path does not

    @property
    def protocol(self) -> str:
        """Under which name its requests are counted."""
        return self.wire.name if self.part == SUBMIT else f"{self.wire.name}.{self.part}"


class Wire:
    """One protocol or dialect, as far as all of its endpoints share it, and these endpoints."""

    honours_keys = False  # whether an `Idempotency-Key` means anything to it

    def __init__(self, name: str) -> None:
        self.name = name
        self.routes: list[Route] = []

    def serves(self, part: str, endpoint: str, *, query: str = "") -> Callable[[Handler], Handler]:
        """Have a function answer an endpoint, `METHOD PATH`."""

        def kept(handler: Handler) -> Handler:
            method, _, path = endpoint.partition(" ")
            self.routes.append(Route(method, path, part, self, handler, query))
            return handler

        return kept

    def authenticate(self, exchange: Exchange) -> str:
        """The upstream key of the request; raises Refusal 401 without one."""
        return bearer(exchange)

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        """Status and body of an error; `code` is the wire's own word for it, if one was given."""
        raise NotImplementedError

    def too_many(self, what: str) -> Refusal:
        """The refusal of one more: `minute` or `tasks`."""
        raise NotImplementedError


@dataclass(slots=True)
class Call:
    """One request, read."""

    exchange: Exchange
    wire: Wire
    api_key: str
    path: tuple[str, ...]  # what stands in the route's open places
    body: Json  # empty where there is none
    directive: Directive
    book: TaskBook
    files: Files
    now: float
    usual_seconds: float  # that a task takes
    parts: dict[str, Any] = field(default_factory=dict)

    @property
    def base(self) -> str:
        """The address that was asked, for links."""
        return base_of(self.exchange)

    def plan(self) -> Plan:
        return plan_of(self.directive, self.usual_seconds)

    def begin(
        self,
        kind: str,
        prefix: str,
        made_seconds: float = 0.0,
        *,
        task_id: str | None = None,
        **facts: Any,
    ) -> Task:
        """A new task, remembered; its id is a new one behind `prefix` unless it is given."""
        key = self.exchange.header(b"idempotency-key").decode("latin-1")
        task = Task(
            id=prefix + self.book.new_id() if task_id is None else task_id,
            wire=self.wire.name,
            kind=kind,
            api_key=self.api_key,
            model=text_of(self.body, "model", "") or "",
            created_at=self.now,
            plan=self.plan(),
            made_seconds=made_seconds,
            facts=facts,
            parts=self.parts,
            idempotency_key=key,
        )
        self.book.add(task)
        return task

    def task(self, task_id: str, *kinds: str) -> Task:
        """A task of this wire and key; raises Refusal 404."""
        task = self.book.find(task_id, self.api_key)
        if task is None or task.wire != self.wire.name or (kinds and task.kind not in kinds):
            raise Refusal(404, f"The task {task_id!r} does not exist.")
        return task

    def is_usable(self, one: str, kind: str, presets: Container[str], task_id: str = "") -> bool:
        """Whether it may be used in a film: a preset, or the key's own and ready."""
        task = self.book.find(task_id or one, self.api_key)
        is_own = task is not None and task.kind == kind and task.state(self.now) == SUCCEEDED
        return is_own or one in presets

    def link(
        self, task: Task, file: File, usual_life: float, *, is_renewed: bool = False
    ) -> tuple[str, int]:
        """A link to a file of a task that is over, and when it ends, in Unix seconds.

        `is_renewed`: who asks after its end gets another one, as a gateway gives it.
        """
        life = usual_life if task.plan.link_seconds is None else task.plan.link_seconds
        expires = task.updated_at(self.now) + life
        if is_renewed and int(expires) <= self.now and life > 0:
            expires = self.now + life
        return self.files.link(self.base, file, task.id, expires), int(expires)


Handler = Callable[[Call], Json | Reply]


def text_of(body: Json, name: str, default: str | None = None) -> str:
    """A text member; raises Refusal 400 for another type, and where it must be there."""
    value = body.get(name, default)
    if not isinstance(value, str) or (default is None and not value):
        raise Refusal(400, f"Invalid '{name}': a text is required.")
    return value


def number_of(body: Json, name: str) -> float | None:
    """A number above zero, or None; raises Refusal 400 for anything else."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
        raise Refusal(400, f"Invalid '{name}': expected a number of seconds.")
    return float(value)


def ratio_of(text: str) -> tuple[int, int]:
    """`16:9` or `1280x720` as two numbers; what is neither is 16:9."""
    wide, _, high = text.replace("x", ":").partition(":")
    if wide.isdecimal() and high.isdecimal() and len(wide) < 6 and len(high) < 6:
        return max(1, int(wide)), max(1, int(high))
    return 16, 9


def contents_of(body: Json) -> list[Json]:
    """The `content` of a video request; raises Refusal 400 where it is none."""
    content = body.get("content")
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise Refusal(400, "Invalid 'content': expected an array of objects.")
    return content


def has_text(content: list[Json]) -> bool:
    return any(item.get("type") == "text" and item.get("text") for item in content)
