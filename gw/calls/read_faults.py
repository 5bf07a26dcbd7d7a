"""The last guard before an upstream's bytes: a fault of ours in reading them is logged.

Every reader of responses takes any bytes there are. Should one not, then the response is what
cannot be used, another channel may do better, and the log says where to look.
"""

from __future__ import annotations

from channels.errors import UpstreamMalformed
from metrics.logs import EventLog

_LOG = EventLog("gw.calls")


def unreadable(error: Exception) -> UpstreamMalformed:
    """The error that is raised instead of one that reading a response has raised."""
    _LOG.error("answer_unreadable", exc_info=True, error=type(error).__name__)
    return UpstreamMalformed(f"an answer that cannot be read: {error!r:.200}")
