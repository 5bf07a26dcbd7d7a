"""Members of a request that only the client's own protocol knows: told, never silently lost.

Decoders keep them in `extras`, by the client's spelling; an encoder of another protocol carries
those it can and lists the rest here. A member whose value is what happens anyway (`n` of 1,
`store` false) loses nothing, and is not listed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from channels.translation.field_names import spelled, spelled_media
from channels.translation.losses import LossReport
from channels.translation.model import ClientProtocol, Media, Part, Request, Thinking


def report_members(request: Request, report: LossReport, *, carried: Collection[str] = ()) -> None:
    """List the members in `request.extras` that are not in `carried`."""
    report_extras(request.origin, "", request.extras, report, carried=carried)


def report_extras(
    origin: ClientProtocol,
    prefix: str,
    extras: Mapping[str, Any],
    report: LossReport,
    *,
    carried: Collection[str] = (),
) -> None:
    """List the extras of a part, a tool or the request; `prefix` goes before each name.

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


def report_part(origin: ClientProtocol, part: Part, report: LossReport) -> None:
    """List a part that cannot be said, or not where it stands; other parts are always said."""
    if isinstance(part, Media):
        report.drop(spelled_media(origin, part))
    elif isinstance(part, Thinking):
        report.drop(spelled(origin, "thinking"))
