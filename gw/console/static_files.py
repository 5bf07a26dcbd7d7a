"""A file that browsers keep: style, script or icon, of the console's own or of Swagger UI."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from importlib.resources import files

_FOLDER = files("gw.console")
# A picture within a style, which the console's policy does not allow.
_PICTURE = re.compile(rb'url\((?:"data:(?:[^"\\]|\\.)*"|data:[^)]*)\)')


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file with its content type. A compressed one is sent as it is."""

    kind: str
    body: bytes
    is_compressed: bool = False

    @classmethod
    def read(cls, name: str, kind: str) -> StaticFile:
        """Read a file of the package."""
        body = _FOLDER.joinpath("static", name).read_bytes()
        return cls(kind, body, is_compressed=name.endswith(".gz"))

    def without_pictures(self) -> StaticFile:
        """Return a compressed style without the pictures within it."""
        style = _PICTURE.sub(b"none", gzip.decompress(self.body))
        return StaticFile(self.kind, gzip.compress(style, mtime=0), is_compressed=True)
