"""What a call's row keeps beside its columns: what was decided and why, for its receipt.

Gathered while the call runs and written with its settlement (`call_logs.detail`). Channels are kept
by name for operators; what a client is shown of it is `gw/api/logs`. Names are short and what goes
without saying is left out, because every call has one:

    request        what was asked, without the conversation     {name: text}
    price          USD per 1M tokens (`TokenPrice.stated`)      {input, output, …}
                   or per piece (`ImagePrice.stated`)           {per_image, …}
    hold           nano-USD held                                integer
    estimate       tokens it was held for                       [input, output]
    order          channels considered, in order                [[channel, protocol], …]
    pinned         the order is that of a pinned conversation   true
    passed_over    why some of them were not tried              {channel: reason}
    tried          attempts, the answered one last              [[channel, Unix s, ms, outcome], …]
    first_byte_ms  when the client was sent the first byte      integer
    translation    by which translation, and what was lost      header value or the path's name;
                                                                `dropped`: [field, …]
    upstream       what the upstream said of its response         {status, id, model, finish, …}
    basis          what the tokens rest on, unless "stated"     `charge.Basis`
    units          pieces by their price                        {standard, large, references}
    characters     counted where output was estimated           integer
    cache_write, reasoning   tokens, parts of input and output  integers
    trace_id       OpenTelemetry's, of a call that is traced    32 hex digits
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.router import Candidate
from channels.redact import Redactor
from gw.calls.bill import Charged
from gw.calls.plan import UpstreamPlan

# Members of `upstream` that are the upstream's own: sentences, and names.
_WORDS = frozenset({"error", "error_code"})
_NAMES = frozenset({"id", "model", "finish"})


class Receipt:
    """Gathers one call's detail. Nothing here decides anything."""

    __slots__ = ("detail",)

    def __init__(self, detail: dict[str, Any]) -> None:
        self.detail = detail

    def __repr__(self) -> str:
        return f"<Receipt {', '.join(self.detail)}>"

    def considered(self, order: Sequence[Candidate], *, is_pinned: bool = False) -> None:
        """The channels that may serve the call, in order."""
        self.detail["order"] = [[c.channel_id, c.protocol] for c in order]
        if is_pinned:
            self.detail["pinned"] = True

    def passed_over(self, reasons: Mapping[str, str]) -> None:
        """Channels that were not tried, and why."""
        if reasons:
            self.detail.setdefault("passed_over", {}).update(reasons)

    def tried(self, channel_id: str, *, at: float, seconds: float, outcome: str) -> None:
        """An attempt is over. `at` is in Unix seconds."""
        attempt = [channel_id, round(at * 1000) / 1000, round(seconds * 1000), outcome]
        self.detail.setdefault("tried", []).append(attempt)

    def translated(self, plan: UpstreamPlan) -> None:
        """How the call was translated, if it was, and what was lost."""
        if plan.translated is not None:
            translation = plan.translated.translation
            self.detail["translation"] = translation.header or translation.path
            if plan.translated.report.dropped:
                self.detail["dropped"] = list(plan.translated.report.dropped)

    def first_byte(self, seconds: float) -> None:
        """The first byte went out to the client so long after the call had come."""
        self.detail["first_byte_ms"] = round(seconds * 1000)

    def finished(
        self, charged: Charged, http_status: int | None, redactor: Redactor
    ) -> Mapping[str, Any]:
        """The whole detail, with what is charged and what the upstream said of its response.

        `http_status` is that of the last attempt's response, None where there was none.
        """
        facts: dict[str, Any] = {"status": http_status, **charged.upstream}
        upstream = {name: value for name, value in facts.items() if value}
        _redact(upstream, redactor)
        if upstream:
            self.detail["upstream"] = upstream
        self.detail.update(charged.detail)
        return self.detail


def _redact(upstream: dict[str, Any], redactor: Redactor) -> None:
    """Redact what an upstream said: its words for an error, and the names it gave its response."""
    for name in _WORDS & upstream.keys():
        upstream[name] = redactor.text(upstream[name])
        if not upstream[name]:
            del upstream[name]
    names = _NAMES & upstream.keys()
    # Together, because nearly always there is nothing in them. No secret has the byte between them.
    if not redactor.responses.is_clear("\0".join([upstream[name] for name in names]).encode()):
        for name in names:
            upstream[name] = redactor.responses.redacted(upstream[name].encode()).decode()
