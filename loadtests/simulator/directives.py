"""Directives: what a request, a channel or everybody wants the upstream to do.

The members with their types and bounds, how several layers become one directive, and the book of
standing ones, which decides which apply to the next request (`rate` by the seed, `times` by
counting down). What a member does to the answer is `completions.py` (content) and `script.py`
(delivery).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any, Final, Literal

import msgspec

from loadtests.simulator.ask import Refusal

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=3_600_000)]

TEXT_MARK = "[[sim "
TEXT_END = "]]"


class DirectiveError(Refusal):
    """The directive is not one of ours: unknown member, wrong type or out of bounds."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


class UsageSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Token counts to report; a member left out keeps the derived count.

    `input` is everything that went in, cache reads and writes included; `output` everything that
    came out, reasoning included. Each dialect splits them the way its wire does.
    """

    input: Count | None = None
    output: Count | None = None
    cached: Count | None = None
    reasoning: Count | None = None
    cache_write: Count | None = None
    # Members of the wire's own, merged into the usage, and into what it stands in (native: the
    # candidate). Zero is sent as zero.
    members: dict[str, Any] = {}
    beside: dict[str, Any] = {}


class CallSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One tool call to make; `arguments` as a string goes out as it is, even when not JSON.

    `chars`: members of the arguments that end with so many characters of plain words.
    """

    name: str
    arguments: dict[str, Any] | str = msgspec.field(default_factory=dict)
    chars: dict[str, Count] = {}
    id: str | None = None


class Directive(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that can be asked of one answer; the defaults are an ordinary answer.

    An *event* is one server-sent event on the wire, of any kind, counted from the first of the
    stream; a plain answer counts as one event. Bytes are bytes of the body, without its framing.
    """

    # The answer as a whole: a status from 300 on has the dialect's error body with this message;
    # `body` is the whole answer, a text as it is, else as JSON.
    status: Annotated[int, msgspec.Meta(ge=200, le=599)] | None = None
    message: str | None = None  # of that error, of `error_event`
    body: Any = None
    headers: dict[str, str] | None = None  # more response headers
    retry_after: int | float | str | None = None  # seconds or a date
    # Broken JSON or UTF-8 in an answer or one event; a 200 with a web page; bytes that are no
    # HTTP; half of the events, then a broken chunk size.
    malformed: Literal["json", "utf8", "html", "http", "chunk"] | None = None
    refuse: bool = False  # reads the request, ends the connection without a byte
    situation: str | None = None  # of the provider that the port plays (`providers/`)

    # The content.
    text: str | None = None
    chars: Count | None = None  # so many characters of plain words
    events: Count | None = None  # so many content deltas, so many images
    chars_per_event: Positive | None = None  # the length of a delta, 5 when not given
    endless: bool = False  # content without end, as fast as the client reads
    reasoning_text: str | None = None  # shown before the answer, in the dialect's form
    # So many, 0 is none; after a text only where the directive states one.
    tool_calls: Count | list[CallSpec] | None = None
    image_bytes: Count = 0  # a picture is a file of that size (not a linked one)
    refusal: str | None = None  # the model declines in these words, in the dialect's form
    # No answer at all, by the wire: `content_filter`, a bare `refusal`, `promptFeedback`.
    blocked: bool = False
    stop_sequence: str | None = None  # the text ended before it, which only messages reports
    # `stop length tool_calls content_filter` in any dialect, or the dialect's own word.
    finish_reason: str | None = None
    usage: UsageSpec | None = None
    no_usage: bool = False

    # The delivery; `hang` and `pause` at the headers, or after so many events.
    delay_headers_ms: Milliseconds = 0.0
    delay_event_ms: Milliseconds = 0.0
    comments_only: bool = False  # a stream: its head, then comments for ever
    hang: Literal["headers"] | Count | None = None
    pause: Literal["headers"] | Count | None = None  # until `POST /_sim/resume`
    # After so many events the dialect's error event, then the end; a plain answer is a 500.
    error_event: Count | None = None
    cut_after_events: Count | None = None
    cut_after_bytes: Count | None = None
    cut: Literal["reset", "close"] = "close"  # RST once what was sent arrived, or FIN
    crlf: bool | None = None  # line ends of the stream; native has CRLF by itself
    split_bytes: Positive | None = None  # writes in pieces of so many bytes

    # Tasks: what becomes of one (see `tasks/`). `code` is a refusal with the wire's own word.
    code: int | str | None = None
    task_seconds: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    task_states: list[str] | None = None  # the words it reports until its end, each as long
    task_error: dict[str, Any] | str | None = None  # alone it makes the task fail
    real_seconds: float | str | None = None  # the length it reports, in place of the true one
    link_seconds: Annotated[float, msgspec.Meta(ge=0, le=100_000_000)] | None = None
    file_bytes: Count = 0  # its film is a file of that size
    later: bool = False  # a transcript becomes a task
    # Directives for polls of the task (or of all), for its files, for registering a picture.
    poll: dict[str, Any] | None = None
    file: dict[str, Any] | None = None
    asset: dict[str, Any] | None = None

    # Whether it applies at all: so often, the seed decides when; a standing one, so many times.
    rate: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    times: Positive | None = None


# Members that are directives themselves, for requests other than the submit of a task.
PARTS: Final = ("poll", "file", "asset")

ORDINARY = Directive()
_HEADER = re.compile(r"[!#-'*+.^-z|~0-9A-Z-]+: [\t -~\xa0-\xff]*")
_scanner = json.JSONDecoder()
_MEMBERS = frozenset(Directive.__struct_fields__)


# The members one layer gives, checked, with null already turned into the default.
Layer = Mapping[str, Any]


def parse(document: bytes | str) -> Layer:
    """Read a directive from its JSON text; raises DirectiveError."""
    try:
        value = msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DirectiveError(f"sim: not JSON: {error}") from error
    return from_value(value)


def from_value(value: object, *, is_part: bool = False) -> Layer:
    """Check a decoded directive; raises DirectiveError naming the member."""
    if not isinstance(value, Mapping):
        raise DirectiveError("sim: expected an object of directive members")
    unknown = sorted(str(name) for name in value if name not in _MEMBERS)
    if unknown:
        raise DirectiveError(f"sim: unknown member {', '.join(repr(name) for name in unknown)}")
    given = {name: member for name, member in value.items() if member is not None}
    try:
        directive = msgspec.convert(given, Directive)
    except msgspec.ValidationError as error:
        raise DirectiveError(f"sim: {error}") from error
    _check_headers(directive)
    for name in PARTS:
        part = getattr(directive, name)
        if part is not None and is_part:
            raise DirectiveError(f"sim: {name!r} within another part")
        if part is not None:
            from_value(part, is_part=True)
    return {name: getattr(directive, name) for name in value}


def _check_headers(directive: Directive) -> None:
    sent = dict(directive.headers or {})
    if isinstance(directive.retry_after, str):
        sent["retry-after"] = directive.retry_after
    for name, text in sent.items():
        if not _HEADER.fullmatch(f"{name}: {text}"):
            raise DirectiveError(f"sim: header {name!r} cannot be sent")


def from_text(text: str) -> tuple[Layer | None, str]:
    """Take the last directive out of a message text: (the layer or None, the text without it)."""
    start = text.rfind(TEXT_MARK)
    if start < 0:
        return None, text
    try:
        _, end = _scanner.raw_decode(text, start + len(TEXT_MARK))
    except (ValueError, RecursionError) as error:
        raise DirectiveError(f"sim: not JSON: {error}") from error
    rest = text[end:].lstrip()
    if not rest.startswith(TEXT_END):
        raise DirectiveError(f"sim: the directive in the text does not end with {TEXT_END}")
    # only the end came from this lenient scanner: the strict reader decides
    layer = parse(text[start + len(TEXT_MARK) : end])
    return layer, (text[:start].rstrip() + " " + rest[2:].lstrip()).strip()


def merge(layers: Iterable[Layer]) -> Directive:
    """One directive from layers, weakest first: each member from the strongest that gives it."""
    members: dict[str, Any] = {}
    for layer in layers:
        members.update(layer)
    return Directive(**members) if members else ORDINARY


MAX_KEYS = 10_000  # far above any test; stops a loop that forgets to clear


@dataclass(slots=True)
class Fault:
    """One standing layer; `remaining` counts down when it was given `times`.

    `parts` are those of its members that are directives for other requests than a submit.
    """

    layer: Layer
    remaining: int | None
    parts: dict[str, Fault] = field(default_factory=dict)


def fault_of(layer: Layer) -> Fault:
    """A layer ready to be taken, its parts beside it."""
    parts = {
        name: fault_of(from_value(layer[name], is_part=True))
        for name in PARTS
        if layer.get(name) is not None
    }
    return Fault(layer, layer.get("times"), parts)


class FaultBook:
    """Standing directives: of everybody (None), of upstream keys."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._standing: dict[str | None, Fault] = {}

    def put(self, api_key: str | None, directive: Mapping[str, Any] | bytes | str) -> None:
        """Set the directive of a key, or of everybody for None; raises DirectiveError."""
        layer = from_value(directive) if isinstance(directive, Mapping) else parse(directive)
        assert api_key in self._standing or len(self._standing) < MAX_KEYS
        self._standing[api_key] = fault_of(layer)

    def clear(self, api_key: str | None) -> None:
        """Take a directive away, if there is one."""
        self._standing.pop(api_key, None)

    def take(self, api_key: str) -> list[Layer]:
        """The layers that apply to this request, weakest first; counts `times` down."""
        return [layer for key in (None, api_key) for layer in self._use(self._standing, key)]

    def take_part(self, api_key: str, part: str, own: dict[str, Fault]) -> list[Layer]:
        """The same for a request that is no submit: of each fault what is meant for such a one.

        `own` are those of the task that it is about.
        """
        standing = [self._standing[key].parts for key in (None, api_key) if key in self._standing]
        return [layer for faults in (*standing, own) for layer in self._use(faults, part)]

    def _use(self, faults: dict[Any, Fault], name: str | None) -> Iterator[Layer]:
        fault = faults.get(name)
        if fault is None or not self._applies(fault.layer):
            return
        if fault.remaining is not None:
            fault.remaining -= 1
            if not fault.remaining:
                del faults[name]
        yield fault.layer

    def own(self, layers: list[Layer]) -> list[Layer]:
        """Those of a request's own that apply this time; raises DirectiveError."""
        if any(layer.get("times") is not None for layer in layers):
            raise DirectiveError("sim: 'times' belongs to a standing directive, not a request")
        return [layer for layer in layers if self._applies(layer)]

    def _applies(self, layer: Layer) -> bool:
        """Whether this time the layer's `rate` lets it act; the seed decides."""
        rate: float = layer.get("rate", 1.0)
        return rate >= 1.0 or self._rng.random() < rate
