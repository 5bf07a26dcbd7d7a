"""What a request asks for, in one shape for all dialects, and the pieces to read it with.

Each dialect reads its own wire into an `Ask` (`dialects/`); `completions.py` turns an `Ask` into an
`Answer` without knowing which wire it came over. Nothing here touches a socket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, get_args

import msgspec

# Five bytes are a token here. The gateway's own estimate counts four, so a test can infer from the
# figures which of the two was charged.
TOKEN_CHARS: Final = 5

NULL: Final = msgspec.Raw(b"null")


class Refusal(Exception):
    """The request is refused before any answer: an HTTP status, a message, more header lines.

    `body` is the whole answer, where it is not the dialect's for that status and message.
    """

    def __init__(
        self, status: int, message: str, *, lines: bytes = b"", body: bytes | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.lines = lines
        self.body = body


class Tool(msgspec.Struct, kw_only=True):
    """A function the request offers; `schema` is the JSON of its parameters or null."""

    name: str
    schema: bytes = b"null"


class Picture(msgspec.Struct, kw_only=True):
    """A picture to draw with the built-in tool, and how many drafts to show before it."""

    size: str
    partial_images: int


class Ask(msgspec.Struct, kw_only=True):
    """One request for a conversation's next turn."""

    model: str
    stream: bool
    text: str = ""  # of the last user message
    tool_result: str | None = None  # set when the conversation ends with a tool's result
    tools: tuple[Tool, ...] = ()
    calls: int = 0  # how many tool calls the request lets us make
    searches: bool = False  # with the built-in tool, before the answer
    picture: Picture | None = None
    max_tokens: int | None = None
    input_tokens: int = 1
    reasoning_tokens: int = 0
    shows_reasoning: bool = False
    proves_reasoning: bool = False  # with what is to be sent back
    reads_cache: bool = False
    writes_cache: bool = False
    include_usage: bool = False
    choices: int = 1
    wants_json: bool = False
    json_schema: bytes = b"null"
    sim: bytes | None = None  # the request's own directive
    as_array: bool = False  # native: a stream as one JSON array
    echoed: dict[str, Any] | None = None  # request members the answer repeats


def shape(*, is_strict: bool = False, **members: Any) -> Any:
    """The type of an object with these members; one that may be null is None when it is absent."""
    absent = {msgspec.Raw: NULL}
    fields = [
        (name, kind, absent.get(kind))
        if kind in absent or type(None) in get_args(kind)
        else (name, kind)
        for name, kind in members.items()
    ]
    return msgspec.defstruct("Request", fields, kw_only=True, forbid_unknown_fields=is_strict)


def many(item: Any) -> Any:
    """A list of such."""
    return list[item]


def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


# A part of a message: only its text interests us; an image is accepted and passed over.
Part = shape(type=str | None, text=str | None, tool_use_id=str | None, content=msgspec.Raw)
_part_list = decoder_of(many(Part))
_text = msgspec.json.Decoder(str)


def given(raw: msgspec.Raw) -> bytes | None:
    """The JSON of a member, None when it is absent or null."""
    text = bytes(raw)
    return None if text == b"null" else text


def content_parts(content: msgspec.Raw) -> list[Any]:
    """A message's content as parts; raises msgspec.ValidationError on another type."""
    match memoryview(content)[0]:  # looking without copying what may be a megabyte
        case 0x6E:  # null
            return []
        case 0x22:  # a string
            return [Part(type="text", text=_text.decode(content))]
    parts: list[Any] = _part_list.decode(content)
    return parts


def content_text(content: msgspec.Raw) -> str:
    """The text of a message's content."""
    if memoryview(content)[0] == 0x22:
        return _text.decode(content)
    return " ".join(part.text for part in content_parts(content) if part.text)


def size_of(raw: msgspec.Raw) -> int:
    """The length of a member's JSON in bytes."""
    return memoryview(raw).nbytes


def tokens_of(size: int) -> int:
    """Tokens in so many characters or bytes."""
    return -(-size // TOKEN_CHARS)


def offer(
    ask: Ask,
    tools: Iterable[Tool],
    *,
    chosen: str | None = None,
    is_forbidden: bool = False,
    in_parallel: bool = True,
) -> None:
    """Put the tools into the request, or the one that is chosen; raises Refusal without that one.

    An ordinary answer makes one call, or two when two tools are offered.
    """
    ask.tools = tuple(tool for tool in tools if chosen in (None, tool.name))
    if chosen is not None and not ask.tools:
        raise Refusal(400, f"Tool choice {chosen!r} was not found in 'tools'.")
    most = 1 if chosen is not None or not in_parallel else 2
    ask.calls = 0 if is_forbidden else min(len(ask.tools), most)


@contextmanager
def content_of(member: str) -> Iterator[None]:
    """Read a member; raises Refusal where it has another type."""
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(400, f"Invalid type for {member!r}: {error}") from error


EFFORT_TOKENS: Final = {"none": 0, "minimal": 8, "low": 32, "medium": 64, "high": 128}


def effort_tokens(effort: str | None) -> int:
    """Reasoning tokens for a request's effort; none when it asks for none."""
    return EFFORT_TOKENS.get(effort, 64) if effort else 0
