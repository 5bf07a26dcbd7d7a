"""Form data with files (RFC 7578): the location of each part in a body, and renaming its model.

A file is not copied from the body. The search for parts yields to the event loop after
SEARCHED_BYTES, so that a long body delays no other request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from email.message import Message
from types import MappingProxyType

from msgspec import Struct, field

from channels.dialects.validate import MODEL_CHARACTERS_MAX, check_model, setting
from channels.errors import InvalidRequest
from channels.json import NOTHING, JsonObject

# Bounds of a form, above those of any client library.
PARTS_MAX = 64
HEAD_BYTES_MAX = 8 * 1024
TEXT_BYTES_MAX = 256 * 1024
# Bytes searched before other tasks get a turn; two milliseconds at worst.
SEARCHED_BYTES = 512 * 1024

_BOUNDARY = re.compile(r'boundary=(?:"([^"\r\n]{1,70})"|([^\s;,"]{1,70}))', re.IGNORECASE)
_FORM = "multipart/form-data"


class Part(Struct, frozen=True):
    """One part; its value is `body[start:end]`. `file_name` is None for a text."""

    name: str
    file_name: str | None
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class Form(Struct, frozen=True):
    """A form: its parts in order, and the header that states its boundary.

    `texts` are the values of the parts without a file; the last of several with one name.
    """

    content_type: str
    parts: Sequence[Part]
    texts: Mapping[str, str]

    def files(self, *names: str) -> list[Part]:
        """Return the files with these names."""
        return [one for one in self.parts if one.file_name is not None and one.name in names]


class FormRequest(Struct, frozen=True, kw_only=True):
    """A checked form, and the facts that the gateway needs; as `ParsedRequest`.

    `parameters` are those for the call log.
    """

    form: Form
    model: str
    parameters: Mapping[str, str]
    object: JsonObject = field(default_factory=lambda: NOTHING)

    def body_for(self, body: bytes, upstream_model: str) -> bytes:
        """Return the client's body with the upstream's model name."""
        if upstream_model == self.model:
            return body
        (part,) = (one for one in self.form.parts if one.name == "model")
        view = memoryview(body)
        return b"".join((view[: part.start], upstream_model.encode(), view[part.end :]))


async def read_form(body: bytes, content_type: str | None) -> Form:
    """Find the parts of a body. Raises InvalidRequest unless it is exactly one form."""
    if content_type is None or not content_type.lower().startswith(_FORM):
        raise InvalidRequest(f"The body has to be {_FORM}, with the file as one of its parts.")
    stated = _BOUNDARY.search(content_type)
    if stated is None:
        raise InvalidRequest(f"Content-Type: {_FORM} states no boundary.")
    mark = b"--" + (stated[1] or stated[2]).encode("latin-1", "replace")
    parts: list[Part] = []
    at = 0 if body.startswith(mark) else await _find(body, b"\r\n" + mark, 0)
    if at > 0:
        at += 2  # the line end before it
    while at >= 0:
        after = at + len(mark)
        if body.startswith(b"--", after):
            return Form(content_type, parts, _texts(body, parts))
        if len(parts) == PARTS_MAX:
            raise InvalidRequest(f"The form has more than {PARTS_MAX} parts.")
        head_end = body.find(b"\r\n\r\n", after, after + HEAD_BYTES_MAX)
        if not body.startswith(b"\r\n", after) or head_end < 0:
            break
        end = await _find(body, b"\r\n" + mark, head_end + 2)
        if end < 0:
            break
        parts.append(_part(body[after + 2 : head_end], head_end + 4, max(end, head_end + 4)))
        at = end + 2
    raise InvalidRequest("The form cannot be read: it is cut off, or not as its boundary states.")


async def _find(body: bytes, wanted: bytes, start: int) -> int:
    """Search like `bytes.find`, in portions."""
    while True:
        end = start + SEARCHED_BYTES
        at = body.find(wanted, start, end + len(wanted) - 1)
        if at >= 0 or end >= len(body):
            return at
        start = end
        await asyncio.sleep(0)


def _part(head: bytes, start: int, end: int) -> Part:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() != b"content-disposition":
            continue
        message = Message()
        try:
            message["content-disposition"] = value.strip().decode("utf-8")
        except (UnicodeDecodeError, ValueError):
            break
        field = message.get_param("name", header="content-disposition")
        if isinstance(field, str):
            return Part(field, message.get_filename(), start, end)
    raise InvalidRequest("A part of the form has no name.")


def _texts(body: bytes, parts: Sequence[Part]) -> Mapping[str, str]:
    texts = {}
    for part in parts:
        if part.file_name is not None:
            continue
        if part.size > TEXT_BYTES_MAX:
            raise InvalidRequest(f"{part.name}: expected at most {TEXT_BYTES_MAX} bytes.")
        try:
            texts[part.name] = body[part.start : part.end].decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidRequest(f"{part.name}: expected a text in UTF-8.", part.name) from None
    return MappingProxyType(texts)


def model_of(form: Form) -> str:
    """Return the only model that the form names. Raises InvalidRequest."""
    model = form.texts.get("model", "")
    if sum(one.name == "model" for one in form.parts) != 1 or not (
        1 <= len(model) <= MODEL_CHARACTERS_MAX
    ):
        expected = f"expected one text of 1 to {MODEL_CHARACTERS_MAX} characters"
        raise InvalidRequest(f"model: {expected}.", "model")
    return check_model(model)


def settings_of(form: Form, names: frozenset[str]) -> dict[str, str]:
    """Return the texts of these names, in the form for the call log."""
    shown = ((name, setting(text)) for name, text in form.texts.items() if name in names)
    return {name: text for name, text in shown if text}
