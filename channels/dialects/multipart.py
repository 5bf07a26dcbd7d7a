"""Form data with files (RFC 7578): read strictly, and written anew for each upstream.

Parsers of forms disagree on whatever is unusual, and the gateway bills by what it reads itself. So
only the plain form is accepted, which client libraries send, and no upstream gets the client's own
bytes of it: each part is written again with the one name that was read, under a boundary that the
client cannot know. Contents are not copied: what is written are views of the body.

The reader is linear; a large form is read in a helper process (`channels/offload`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from channels.dialects.logged_parameters import setting
from channels.dialects.validation import MODEL_CHARACTERS_MAX, check_model
from channels.errors import InvalidRequest
from channels.http.request_writer import BodyPieces
from channels.json.json_object import NOTHING, JsonObject

# Bounds of a form, above those of any client library.
PARTS_MAX = 64
HEAD_BYTES_MAX = 1024
TEXT_BYTES_MAX = 256 * 1024

_END = b"\r\n"
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_QUOTED = r'"[^"\\]*"'
# RFC 2046, 5.1.1. Any further parameter is a second boundary to some parser.
_FORM = re.compile(
    r"multipart/form-data[ \t]*;[ \t]*boundary="
    r"(?:\"([0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-])\""
    r"|([0-9A-Za-z'()+_./:=?-]{1,70}))[ \t]*",
    re.IGNORECASE | re.ASCII,
)
_PARAMETER = re.compile(rf"[ \t]*;[ \t]*({_TOKEN}\*?)=({_QUOTED}|{_TOKEN})")
# Upstreams cut, fold or rename other characters: ` model`, `mo.del` (PHP).
_NAME = re.compile(r"[0-9A-Za-z_-]{1,100}(?:\[[0-9A-Za-z_-]{0,100}\])*")
_MEDIA_TYPE = re.compile(rf"({_TOKEN})/{_TOKEN}(?:[ \t]*;[ \t]*{_TOKEN}=(?:{_QUOTED}|{_TOKEN}))*")
_CHARSET = re.compile(r";[ \t]*charset=\"?([^\";]*)", re.IGNORECASE)
_CHARSETS = frozenset(("utf-8", "us-ascii"))
_PLAIN_ENCODINGS = frozenset(("binary", "8bit", "7bit"))


class FormPart(Struct, frozen=True):
    """One part; its value is `body[start:end]`. `file_name` is None for a text.

    `media_type` is a file's `Content-Type`, empty without one.
    """

    name: str
    file_name: str | None
    media_type: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class Form(Struct, frozen=True):
    """A form: its parts in order, and the values of those without a file.

    A name occurs once in `texts`, and once in the form unless it ends with `[]` or is of files.
    """

    parts: Sequence[FormPart]
    texts: Mapping[str, str]

    def files(self, *names: str) -> list[FormPart]:
        """Return the files with these names."""
        return [one for one in self.parts if one.file_name is not None and one.name in names]

    def written(
        self, body: bytes, boundary: str, replace: Mapping[str, str] | None = None
    ) -> BodyPieces:
        """Return the form under this boundary, with the values of some texts replaced.

        `body` is the one that the form was read from. The boundary must not be known to whoever
        made the body.
        """
        view = memoryview(body)
        pieces: list[bytes | memoryview] = []
        before = f"--{boundary}\r\n".encode()
        for part in self.parts:
            pieces.append(before + _head_of(part))
            value = (replace or {}).get(part.name) if part.file_name is None else None
            pieces.append(view[part.start : part.end] if value is None else value.encode())
            before = f"\r\n--{boundary}\r\n".encode()
        pieces.append(f"\r\n--{boundary}--\r\n".encode())
        return BodyPieces(pieces)


def _head_of(part: FormPart) -> bytes:
    head = f'Content-Disposition: form-data; name="{part.name}"'
    if part.file_name is not None:
        head += f'; filename="{part.file_name}"'
        if part.media_type:
            head += f"\r\nContent-Type: {part.media_type}"
    return head.encode() + b"\r\n\r\n"


class FormRequest(Struct, frozen=True, kw_only=True):
    """A checked form, and the facts that the gateway needs; as `ParsedRequest`.

    `parameters` are those for the call log.
    """

    form: Form
    model: str
    parameters: Mapping[str, str]
    object: JsonObject = field(default_factory=lambda: NOTHING)

    def body_for(self, body: bytes, upstream_model: str) -> tuple[str, BodyPieces]:
        """Return the `Content-Type` and the form with the upstream's model name."""
        return self.written(body, {"model": upstream_model})

    def written(self, body: bytes, replace: Mapping[str, str]) -> tuple[str, BodyPieces]:
        """Return the `Content-Type` and the form with the values of some texts replaced."""
        boundary = secrets.token_hex(16)
        return (
            f"multipart/form-data; boundary={boundary}",
            self.form.written(body, boundary, replace),
        )


def read_form(body: bytes, content_type: str | None, names: frozenset[str]) -> Form:
    """Find the parts of a body. Raises InvalidRequest unless it is exactly one plain form.

    `names` are those that the gateway reads: another spelling of one is refused, which an upstream
    may take for it.
    """
    delimiter = b"\r\n--" + _boundary_of(content_type)
    size = len(delimiter)
    if not body.startswith(delimiter[2:]):
        raise _unreadable("it does not begin with its boundary")
    parts: list[FormPart] = []
    at = -2  # of the delimiter
    while not body.startswith(b"--", at + size):
        head_at = at + size + 2
        end = body.find(b"\r\n\r\n", head_at - 2, head_at + HEAD_BYTES_MAX + 4)
        if not body.startswith(_END, at + size) or end < head_at:
            raise _unreadable(f"the head of a part is missing, or above {HEAD_BYTES_MAX} bytes")
        if len(parts) == PARTS_MAX:
            raise InvalidRequest(f"The form has more than {PARTS_MAX} parts.")
        start = end + 4
        at = body.find(delimiter, start)
        if at < 0 or body.startswith(delimiter[2:], start):
            raise _unreadable("it is cut off, or not as its boundary states")
        parts.append(_part(body[head_at:end], start, at))
    if len(body) > at + size + 2 and not (len(body) == at + size + 4 and body.endswith(_END)):
        raise _unreadable("something follows its last boundary")
    _check_names(parts, names)
    return Form(parts, _texts(body, parts))


def _boundary_of(content_type: str | None) -> bytes:
    stated = _FORM.fullmatch(content_type or "")
    if stated is None:
        raise InvalidRequest(
            "The body has to be multipart/form-data, with the file as one of its parts and no "
            "parameter in Content-Type but one boundary."
        )
    return (stated[1] or stated[2]).encode()


def _unreadable(fault: str) -> InvalidRequest:
    return InvalidRequest(f"The form cannot be read: {fault}.")


def _part(head: bytes, start: int, end: int) -> FormPart:
    """Read a head of at most HEAD_BYTES_MAX. Raises InvalidRequest for any but a plain one."""
    try:
        text = head.decode()
    except UnicodeDecodeError:
        raise _unreadable("the head of a part is not in UTF-8") from None
    fields: dict[str, str] = {}
    for line in text.split("\r\n"):
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or name in fields or name not in _FIELDS or _CONTROL.search(value):
            raise _unreadable(
                "a part has another line in its head than one Content-Disposition and Content-Type"
            )
        fields[name] = value.strip(" \t")
    if fields.get("content-transfer-encoding", "binary").lower() not in _PLAIN_ENCODINGS:
        raise _unreadable("a part has a Content-Transfer-Encoding")
    if fields.get("content-length", str(end - start)) != str(end - start):
        raise _unreadable("a part has another length than its head states")
    name, file_name = _named(fields.get("content-disposition", ""))
    media_type = fields.get("content-type", "")
    _check_media_type(media_type, is_text=file_name is None)
    return FormPart(name, file_name, media_type, start, end)


# The last two are left out of what is written: some libraries send them, no upstream may trust
# them.
_FIELDS = frozenset(
    ("content-disposition", "content-type", "content-transfer-encoding", "content-length")
)


# Ends of lines to some parser, and other controls.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


def _named(disposition: str) -> tuple[str, str | None]:
    """Return name and file name of a Content-Disposition. Raises InvalidRequest."""
    kind, semicolon, rest = disposition.partition(";")
    rest = semicolon + rest
    found: dict[str, str] = {}
    at = 0
    while at < len(rest):
        one = _PARAMETER.match(rest, at)
        if one is None or one[1].lower() in found:
            break
        found[one[1].lower()] = one[2][1:-1] if one[2].startswith('"') else one[2]
        at = one.end()
    # `filename*` beside a plain one is a second spelling of a label, and is left out.
    extended = found.pop("filename*", None)
    if (
        kind.strip(" \t").lower() != "form-data"
        or at < len(rest)
        or not found.keys() <= {"name", "filename"}
        or (extended is not None and "filename" not in found)
        or not found.get("filename", "-").strip()
    ):
        raise InvalidRequest(
            "A part of the form has no plain Content-Disposition: expected form-data with one "
            "name, and one filename of a file, without backslashes."
        )
    name = found.get("name", "")
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            "A part of the form has no name of letters, digits, `_` and `-`, and perhaps `[]`."
        )
    file_name = found.get("filename")
    return name, None if file_name is None else file_name.strip().replace(";", "_")


def _check_media_type(media_type: str, *, is_text: bool) -> None:
    """Raise InvalidRequest for what some parser unpacks or decodes otherwise."""
    if not media_type:
        return
    read = _MEDIA_TYPE.fullmatch(media_type)
    if read is None or read[1].lower() in ("multipart", "message"):
        raise _unreadable("a part has no plain Content-Type")
    charsets = (one.strip().lower() for one in _CHARSET.findall(media_type))
    if is_text and not _CHARSETS.issuperset(charsets):
        raise _unreadable("a text has another charset than UTF-8")


def _check_names(parts: Sequence[FormPart], names: frozenset[str]) -> None:
    """Raise InvalidRequest for a name that upstreams may read as that of another part."""
    known = {_base_of(name): name for name in names}
    seen: dict[str, FormPart] = {}
    plain = {part.name.casefold() for part in parts}
    for part in parts:
        name, base = part.name.casefold(), _base_of(part.name)
        if base in known and part.name not in names:
            raise InvalidRequest(f"{part.name}: did you mean `{known[base]}`?", part.name)
        other = seen.setdefault(name, part)
        are_files = other.file_name is not None and part.file_name is not None
        is_repeatable = are_files or (name.endswith("[]") and other.name == part.name)
        if (other is not part and not is_repeatable) or (
            name != base and base in plain and not _are_files(parts, base)
        ):
            raise InvalidRequest(f"{part.name}: expected once in the form.", part.name)


def _are_files(parts: Sequence[FormPart], base: str) -> bool:
    return all(part.file_name is not None for part in parts if _base_of(part.name) == base)


def _base_of(name: str) -> str:
    return name.partition("[")[0].casefold()


def _texts(body: bytes, parts: Sequence[FormPart]) -> dict[str, str]:
    texts = {}
    for part in parts:
        if part.file_name is not None:
            continue
        if part.size > TEXT_BYTES_MAX:
            raise InvalidRequest(f"{part.name}: expected at most {TEXT_BYTES_MAX} bytes.")
        try:
            texts[part.name] = body[part.start : part.end].decode()
        except UnicodeDecodeError:
            raise InvalidRequest(f"{part.name}: expected a text in UTF-8.", part.name) from None
    return texts


def model_of(form: Form) -> str:
    """Return the model that the form names. Raises InvalidRequest."""
    model = form.texts.get("model", "")
    if not 1 <= len(model) <= MODEL_CHARACTERS_MAX:
        expected = f"expected one text of 1 to {MODEL_CHARACTERS_MAX} characters"
        raise InvalidRequest(f"model: {expected}.", "model")
    return check_model(model)


def settings_of(form: Form, names: frozenset[str]) -> dict[str, str]:
    """Return the texts of these names, in the form for the call log."""
    shown = ((name, setting(text)) for name, text in form.texts.items() if name in names)
    return {name: text for name, text in shown if text}
