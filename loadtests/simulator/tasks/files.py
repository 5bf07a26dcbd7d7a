"""Result files: signed links that end, and their bytes on request, whole or in part.

A link describes its file whole, `/_files/film/5000-16x9-7-0/ID.mp4?expires=…&signature=…`, so none
is kept: it is made when it is fetched. `file_bytes` makes a film as large as is wanted by a box
that players skip; those bytes are never in memory at once.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.media.audio import FORMATS
from loadtests.simulator.media.film import film, padded
from loadtests.simulator.media.picture import png

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
