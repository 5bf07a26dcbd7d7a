"""Losses of a translation: field names, in the client's own spelling.

The gateway sends them in `X-Protocol-Warning`, or refuses the call if the client requested
strictness (reference 3.1). Each encoder knows which fields its target lacks; each client
protocol has its own names (its `ORIGIN`), and members outside the model are named as received.

Decoders keep members that only the client's own protocol has in `extras`, in the client's
spelling; an encoder of another protocol carries those that it can and reports the rest here. A
member whose value is the default behaviour (`n` of 1, `store` false) loses nothing, and is not
reported.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from channels.conversation import naming_members
from channels.errors import InvalidRequest
from channels.translation import model

# A client's unknown members are named in a response header, which no name may break or fill.
_UNFIT = re.compile(r"[^A-Za-z0-9_.\[\]$@-]")
NAME_CHARACTERS_MAX = 80
NAMES_MAX = 40
# Fields without which a response costs more at most.
_HINTS = frozenset(("prompt_cache_key",))
# The values of canonical fields that are equivalent to leaving them out.
_USUAL = {"count": 1, "frequency_penalty": 0, "presence_penalty": 0}


class LossReport:
    """Fields dropped or changed by one translation, each once, in the order of detection."""

    __slots__ = ("_fields", "_more")

    def __init__(self) -> None:
        self._fields: dict[str, None] = {}  # a set that keeps its order
        self._more = 0  # further fields, only counted

    @property
    def dropped(self) -> list[str]:
        """The fields; of a shortened report, the first ones."""
        return list(self._fields)

    @property
    def lost(self) -> list[str]:
        """The fields without which the response may be another one."""
        return [name for name in self._fields if name not in _HINTS]

    def shortened(self) -> LossReport:
        """Return a report with at most as many names as a warning has."""
        if len(self._fields) <= NAMES_MAX:
            return self
        short = LossReport()
        short._fields = dict.fromkeys(self.dropped[:NAMES_MAX])
        short._more = self._more + len(self._fields) - len(short._fields)
        return short

    def drop(self, field: str) -> None:
        """Add a field in the client's spelling, e.g. `response_format` or `tools.web_search`."""
        self._fields[_UNFIT.sub("_", field[:NAME_CHARACTERS_MAX])] = None

    def warning(self) -> str | None:
        """Return the value of `X-Protocol-Warning`; None if nothing was dropped.

        Printable ASCII. Names beyond 40 are only counted.
        """
        if not self._fields:
            return None
        names = self.dropped[:NAMES_MAX]
        more = self._more + len(self._fields) - len(names)
        return "; ".join([*names, f"{more} more"] if more else names)


def spelled_media(origin: model.ClientProtocol, media: model.Media) -> str:
    """Return the client's name of a medium, which may differ for one given by URL."""
    if media.url is not None and (name := origin.names.get("media.url")) is not None:
        return name
    return spelled(origin, media.kind)


def spelled(origin: model.ClientProtocol, field: str) -> str:
    """Return the client's name of a canonical field; by default the field's own."""
    return origin.names.get(field, field)


def report_lacking(request: model.Request, fields: Iterable[str], report: LossReport) -> None:
    """Report those of the fields that the client stated, for a target without members for them."""
    for field in fields:
        value = getattr(request, field)
        if value is not None and value != () and value != _USUAL.get(field):
            report.drop(spelled(request.origin, field))


def report_members(
    request: model.Request, report: LossReport, *, carried: Collection[str] = ()
) -> None:
    """Report the members in `request.extras` that neither `carried` has nor the gateway obeys."""
    extras = request.extras
    if extras:
        carried = {*carried, *naming_members(extras)}
    report_extras(request.origin, "", extras, report, carried=carried)


def report_extras(
    origin: model.ClientProtocol,
    prefix: str,
    extras: Mapping[str, object],
    report: LossReport,
    *,
    carried: Collection[str] = (),
) -> None:
    """Report the extras of a part, a tool or the request; `prefix` precedes each name.

    `prefix` is "" or ends in a dot: `messages.` with `cache_control` is `messages.cache_control`.
    """
    if not extras:
        return
    neutral = origin.neutral
    for name, value in extras.items():
        field = prefix + name
        if value is None or name in carried:
            continue
        if field in neutral and neutral[field] == value:
            continue
        report.drop(field)


def report_media(origin: model.ClientProtocol, media: model.Media, report: LossReport) -> None:
    """Report a medium that cannot be expressed.

    Raises InvalidRequest for one that the client sent in the place of another kind: it would not
    find its own part in the report.
    """
    if media.member is not None:
        path = f"{origin.parts}{media.member}"
        raise InvalidRequest(
            f"{path}: the channel of this model speaks another protocol, which has no place for "
            f"{media.mime_type}.",
            path,
        )
    report.drop(spelled_media(origin, media))


def report_part(origin: model.ClientProtocol, part: model.Part, report: LossReport) -> None:
    """Report a part that cannot be expressed, or not in this position, if it can be lost."""
    if isinstance(part, model.Media):
        report_media(origin, part, report)
    elif isinstance(part, model.Thinking):
        report.drop(spelled(origin, "thinking"))
