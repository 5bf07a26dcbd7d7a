"""A request for a page of the list, parsed from its query (spec: Call logs, `GET /v1/logs`)."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Literal, cast
from uuid import UUID

from channels.families import UNITS
from gw.errors import INVALID_REQUEST, GatewayError
from gw.keys.principal import Principal
from metrics.log_redaction import redact

# Parses query parameters: each at most once, an empty one counts as absent (spec: Call logs, 1).
#
# The functions below give parameters their meaning; here a text becomes one of several words, a
# list of words or a number, or a 400 that names the parameter and its valid values.

TEXT_CHARACTERS_MAX = 4000
WORDS_MAX = 100
SHOWN_CHARACTERS_MAX = 60


def refuse(name: str, why: str) -> GatewayError:
    """Return the 400 for a parameter."""
    return GatewayError(INVALID_REQUEST, f"`{name}` {why}", param=name)


def quoted(text: str) -> str:
    """Return the client's text as an error message repeats it."""
    shown = redact(text)
    return repr(shown[:SHOWN_CHARACTERS_MAX] + ("…" if len(shown) > SHOWN_CHARACTERS_MAX else ""))


class Parameters:
    """The query of one request. Unknown parameters are ignored. All methods raise 400."""

    def __init__(self, query: Mapping[str, Sequence[bytes]]) -> None:
        self._query = query

    def text(self, name: str) -> str | None:
        """Return the one value of a parameter without surrounding white space, or None."""
        values = list(dict.fromkeys(self._values(name)))
        if len(values) > 1:
            raise refuse(name, "is given more than once.")
        return values[0] if values else None

    def words(self, name: str) -> tuple[str, ...]:
        """Return the distinct values of a comma-separated list; a repeated parameter extends it."""
        found = dict.fromkeys(
            word.strip() for value in self._values(name) for word in value.split(",")
        )
        found.pop("", None)
        if len(found) > WORDS_MAX:
            raise refuse(name, f"takes at most {WORDS_MAX} values.")
        return tuple(found)

    def choice(self, name: str, allowed: Collection[str]) -> str | None:
        """Return one of the allowed words, or None."""
        value = self.text(name)
        if value is not None and value not in allowed:
            raise _unknown(name, value, allowed)
        return value

    def choices(self, name: str, allowed: Collection[str]) -> tuple[str, ...]:
        """Return a list of allowed words."""
        values = self.words(name)
        for value in values:
            if value not in allowed:
                raise _unknown(name, value, allowed)
        return values

    def whole(self, name: str, *, least: int, most: int) -> int | None:
        """Return an integer within bounds, or None."""
        value = self.text(name)
        if value is None:
            return None
        # More digits than those of the bound exceed it, and are not parsed.
        is_number = value.isascii() and value.isdigit() and len(value) <= max(10, len(str(most)))
        if not is_number or not least <= int(value) <= most:
            raise refuse(name, f"is a whole number from {least} to {most}, not {quoted(value)}.")
        return int(value)

    def _values(self, name: str) -> list[str]:
        found = []
        for raw in self._query.get(name, ()):
            try:
                value = raw.decode().strip()
            except UnicodeDecodeError:
                raise refuse(name, "is not UTF-8.") from None
            if len(value) > TEXT_CHARACTERS_MAX:
                raise refuse(name, f"has more than {TEXT_CHARACTERS_MAX} characters.")
            if not value.isprintable():
                raise refuse(name, "has characters that cannot be printed.")
            if value:
                found.append(value)
        return found


def _unknown(name: str, value: str, allowed: Collection[str]) -> GatewayError:
    return refuse(name, f"takes {', '.join(allowed)}; {quoted(value)} is none of them.")


# The filters of a list, applied row by row (spec: Call logs, query parameters).

STATUSES = ("success", "error", "interrupted", "rejected")
# The unit types of rows billed by the piece; `chat` selects rows billed by tokens, without one.
UNIT_TYPES = tuple(unit.name for unit in UNITS)
TOKEN_BILLED = "chat"
ROW_FILTERS = ("model", "status", "unit_type", "error_code", "ref")

_TRACE = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The values that pass, by member; an empty member passes every row."""

    models: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    unit_types: tuple[str, ...] = ()
    error_codes: tuple[str, ...] = ()
    ref: str | None = None  # of one row: its task id or request id

    @property
    def is_narrow(self) -> bool:
        """Whether any list is given."""
        return bool(self.models or self.statuses or self.unit_types or self.error_codes)

    @property
    def trace(self) -> UUID | None:
        """`ref` as a request id: 32 hex digits, or the usual form of a UUID."""
        if self.ref is None or _TRACE.fullmatch(self.ref) is None:
            return None
        return UUID(self.ref)


def read_filters(parameters: Parameters) -> Filters:
    """Return the filters of a list. Raises 400."""
    return Filters(
        models=parameters.words("model"),
        statuses=parameters.choices("status", STATUSES),
        unit_types=parameters.choices("unit_type", (*UNIT_TYPES, TOKEN_BILLED)),
        error_codes=parameters.words("error_code"),
        ref=parameters.text("ref"),
    )


def refuse_filters(parameters: Parameters) -> None:
    """Raise 400 for any filter, on the summary."""
    for name in ROW_FILTERS:
        if parameters.words(name):
            raise refuse(name, "narrows a list of rows; the summary takes no such filter.")


# Instants in clients' texts: RFC 3339, or a date alone; always UTC.
#
# The standard library accepts more than RFC 3339 (week dates, no offset) and less (leap seconds,
# more than six decimals), so the form is validated here.

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
# An unescaped plus in a query arrives as a space.
_INSTANT = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[Tt ](?P<time>(?!24)\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,30}))?"
    r"(?:[Zz]|(?P<sign>[+\- ])(?P<hours>\d\d):(?P<minutes>\d\d))",
    re.ASCII,
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class NotAnInstant(ValueError):
    """The text is neither a date nor an RFC 3339 timestamp."""


def read_date(text: str) -> date | None:
    """Return a date of the form `YYYY-MM-DD`, or None. Raises NotAnInstant for 31 June."""
    if _DATE.fullmatch(text) is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise NotAnInstant(text) from error


def midnight(day: date) -> datetime:
    """Return the first instant of a day of UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def read_instant(text: str) -> datetime:
    """Return an RFC 3339 timestamp in UTC, truncated to microseconds. Raises NotAnInstant."""
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise NotAnInstant(text)
    clock = found["time"]
    is_leap = clock.endswith(":60")
    try:
        local = datetime.fromisoformat(
            f"{found['date']}T{clock[:-2]}{'59' if is_leap else clock[-2:]}"
        )
        fraction = 0 if is_leap else int((found["fraction"] or "0")[:6].ljust(6, "0"))
        local += timedelta(seconds=is_leap, microseconds=fraction)
        return local.replace(tzinfo=_zone(found)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise NotAnInstant(text) from error


def show(instant: datetime) -> str:
    """Return an instant as RFC 3339 in UTC, with microseconds unless they are zero."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def to_microseconds(instant: datetime) -> int:
    """Return the exact microseconds since 1970."""
    return (instant - EPOCH) // _MICROSECOND


def of_microseconds(microseconds: int) -> datetime:
    """Return the instant of microseconds since 1970. Raises OverflowError outside years 1–9999."""
    return EPOCH + timedelta(microseconds=microseconds)


def _zone(found: re.Match[str]) -> timezone:
    if found["sign"] is None:
        return UTC
    if int(found["minutes"]) > 59 or int(found["hours"]) > 23:
        raise NotAnInstant(found[0])
    offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"]))
    return timezone(-offset if found["sign"] == "-" else offset)


# The time window of a request: a period that ends now, or `from` and `to`.
#
# Half-open: it contains rows with `start <= created_at < end`. Days, months and dates are UTC.

PERIODS = ("today", "7d", "30d", "this_month", "all")
DEFAULT_PERIOD = "30d"
# No row is outside of these, and arithmetic on both sides does not overflow.
EARLIEST, LATEST = EPOCH, datetime(9000, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` to `end`, which is excluded, both in UTC."""

    start: datetime
    end: datetime


def read_window(
    parameters: Parameters, now: datetime, *, default_period: str = DEFAULT_PERIOD
) -> Window:
    """Return the window of a request (spec: Call logs; rule 2). Raises 400.

    `from` and `to` take precedence over `period`, which is then ignored.
    """
    since, until = parameters.text("from"), parameters.text("to")
    if (since is None) != (until is None):
        missing, given = ("to", "from") if until is None else ("from", "to")
        raise refuse(given, f"needs `{missing}`: the two are given together.")
    if since is None or until is None:
        return _of_period(parameters.choice("period", PERIODS) or default_period, now)
    (start, _), (last, end) = _read("from", since), _read("to", until)
    if start > end or start == end != last:
        raise refuse("from", "lies after `to`.")
    return Window(start, end)


def _of_period(period: str, now: datetime) -> Window:
    today = midnight(now.date())
    starts = {
        "today": today,
        "7d": now - 7 * _DAY,
        "30d": now - 30 * _DAY,
        "this_month": today.replace(day=1),
        "all": EPOCH,
    }
    return Window(starts[period], now)


def _read(name: str, text: str) -> tuple[datetime, datetime]:
    """Return the start and end of the time named by a text; equal for an instant."""
    try:
        day = read_date(text)
        instant = read_instant(text) if day is None else midnight(day)
    except NotAnInstant:
        raise refuse(
            name,
            "is a date (2026-11-21) or an RFC 3339 timestamp with its offset"
            f" (2026-11-21T08:30:00Z), not {quoted(text)}.",
        ) from None
    instant = min(max(instant, EARLIEST), LATEST)
    return instant, instant if day is None else instant + _DAY


# The rows of the call log that a key may read (spec: Key visibility matrix).

Scope = Literal["key", "account"]


@dataclass(frozen=True, slots=True)
class Visibility:
    """The rows of one account, or of one of its keys; never another account's."""

    scope: Scope
    account_id: str
    key_id: str | None  # None: every key of the account

    def narrowed(self, key_id: str) -> Visibility:
        """Return the scope narrowed to one key."""
        return replace(self, key_id=key_id)


def of_scope(principal: Principal, scope: Scope) -> Visibility | None:
    """Return the visibility of the key in this scope; None if the scope is forbidden.

    The whole account is visible to console-created keys with the toggle enabled.
    """
    if scope == "key":
        return Visibility("key", principal.account_id, principal.key_id)
    if principal.kind == "console" and principal.account_logs:
        return Visibility("account", principal.account_id, None)
    return None


def widest(principal: Principal) -> Visibility:
    """Return the widest visibility of the key, for look-ups by id."""
    whole = of_scope(principal, "account")
    return whole or Visibility("key", principal.account_id, principal.key_id)


# The cursor: the start of the next page, sealed so that only the gateway can write one.
#
# It contains the window of the first page, the order and the last row shown. Its seal covers the
# visibility, so a cursor of another key or scope is invalid; visibility is checked again for each
# page all the same.

Order = Literal["desc", "asc"]

_VERSION = 1
_LAYOUT = struct.Struct(">BBqqqq")  # version, order, window, the last row's instant and id
_SEAL_BYTES = 16
_TEXT_CHARACTERS = -(-4 * (_LAYOUT.size + _SEAL_BYTES) // 3)
_ORDERS: tuple[Order, Order] = ("desc", "asc")


class BadCursor(ValueError):
    """The text is no cursor of the gateway, or one of another visibility."""


@dataclass(frozen=True, slots=True)
class PagePosition:
    """A row's position among all rows: by its instant, then by its id."""

    created_at: datetime
    id: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """Continue after `position`, in this order, within this window."""

    window: Window
    order: Order
    position: PagePosition


class CursorSeal:
    """Writes cursors with the first of some keys of 32 bytes, and validates them with any."""

    def __init__(self, *keys: bytes) -> None:
        self._keys = keys

    def __repr__(self) -> str:
        return "<CursorSeal>"

    def write(self, cursor: Cursor, visibility: Visibility) -> str:
        """Return the opaque text of a cursor."""
        body = _LAYOUT.pack(
            _VERSION,
            _ORDERS.index(cursor.order),
            to_microseconds(cursor.window.start),
            to_microseconds(cursor.window.end),
            to_microseconds(cursor.position.created_at),
            cursor.position.id,
        )
        sealed = body + _seal(self._keys[0], body, visibility)
        return _text(sealed)

    def read(self, text: str, visibility: Visibility) -> Cursor:
        """Parse and validate a cursor. Raises BadCursor."""
        if len(text) != _TEXT_CHARACTERS or not text.isascii():
            raise BadCursor
        try:
            sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except binascii.Error:
            raise BadCursor from None
        if _text(sealed) != text:
            raise BadCursor  # the spare bits of the last character are not covered by the seal
        body, seal = sealed[: _LAYOUT.size], sealed[_LAYOUT.size :]
        good = [_seal(key, body, visibility) for key in self._keys]
        if not any(hmac.compare_digest(seal, one) for one in good):
            raise BadCursor
        version, order, start, end, at, row_id = _LAYOUT.unpack(body)
        if version != _VERSION:
            raise BadCursor
        window = Window(of_microseconds(start), of_microseconds(end))
        return Cursor(window, _ORDERS[order], PagePosition(of_microseconds(at), row_id))


def _seal(key: bytes, body: bytes, visibility: Visibility) -> bytes:
    whose = f"{visibility.scope}\0{visibility.account_id}\0{visibility.key_id or ''}\0"
    return hmac.digest(key, whose.encode() + body, "sha256")[:_SEAL_BYTES]


def _text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")


SCOPES = ("key", "account")
ORDERS = ("desc", "asc")
INCLUDES = ("attempts", "in_flight", "none")
LIMIT_DEFAULT, LIMIT_MAX = 50, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LogListQuery:
    """The parsed query; `after` is the last row of the previous page, None on the first."""

    visibility: Visibility
    filters: Filters
    window: Window
    order: Order
    after: PagePosition | None
    limit: int
    with_attempts: bool
    with_in_flight: bool


def read_list_query(
    query: Mapping[str, Sequence[bytes]],
    *,
    see: Callable[[Scope], Visibility],
    seal: CursorSeal,
    now: datetime,
) -> LogListQuery:
    """Parse and validate the whole query. `see` raises 403, the rest is 400.

    On later pages the window and order of the cursor apply; `from`, `to` and `period` must still be
    well formed, and an `order` must be the cursor's.
    """
    parameters = Parameters(query)
    visibility = read_visibility(parameters, see)
    order = cast(Order | None, parameters.choice("order", ORDERS))
    include = parameters.choices("include", INCLUDES) or ("attempts",)
    filters = read_filters(parameters)
    # Clients with a reference rarely know the age of its row (contract §7: `ref`).
    of_any_age = "all" if filters.ref is not None else DEFAULT_PERIOD
    window = read_window(parameters, now, default_period=of_any_age)
    after: PagePosition | None = None
    text = parameters.text("cursor")
    if text is not None:
        try:
            cursor = seal.read(text, visibility)
        except BadCursor:
            raise refuse(
                "cursor", "is not one that this listing gave; pass `next_cursor` on as it came."
            ) from None
        if order not in (None, cursor.order):
            raise refuse("cursor", f"belongs to a listing with order={cursor.order}.")
        window, order, after = cursor.window, cursor.order, cursor.position
    limit = parameters.whole("limit", least=1, most=LIMIT_MAX)
    return LogListQuery(
        visibility=visibility,
        filters=filters,
        window=window,
        order=order or "desc",
        after=after,
        limit=LIMIT_DEFAULT if limit is None else limit,
        with_attempts="attempts" in include,
        with_in_flight="in_flight" in include and after is None,
    )


def read_visibility(parameters: Parameters, see: Callable[[Scope], Visibility]) -> Visibility:
    """Return scope and key of a request; a key of another account finds nothing."""
    scope = cast(Scope, parameters.choice("scope", SCOPES) or "key")
    key_id = parameters.text("key_id")
    if key_id is not None and scope != "account":
        raise refuse("key_id", "is taken only with scope=account.")
    visibility = see(scope)
    return visibility if key_id is None else visibility.narrowed(key_id)
