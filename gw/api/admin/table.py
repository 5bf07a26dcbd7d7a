"""The one table of the admin API's routes: parameters, responses and functions.

The served routes (`server.py`) and their description (`gw/admin_services.py`) are both made from
it, so that no route lacks a description. A route says what its function says (`route`): the first
line of a docstring is public.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from msgspec import Struct

from actors.changes import heard_by_all
from actors.channel_directory import ChannelDirectory
from actors.clock import Clock
from actors.store.database import Database
from actors.store.session import Session
from channels.http.interfaces import UpstreamClient
from channels.registry import Registry
from gw.admin.audit import Actor
from gw.admin.channel_states import ChannelStates
from gw.admin.ledger import LedgerProofs
from gw.admin.tasks import MakeEndings
from gw.config.live import LiveConfig
from gw.http.admin_api import BODY_BYTES_MAX
from gw.http.rows import checked_table, refuse_faults
from gw.keys.secret import Secret
from gw.knowledge.sources import SourceStore

# Requests of one token within a minute, over all processes, after which all else is refused.
REQUESTS_PER_MINUTE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminServices:
    """The services of routes. `database` is a pool of the admin API's own."""

    database: Database
    current: LiveConfig
    secret: Secret
    clock: Clock
    channels: ChannelDirectory
    states: ChannelStates
    proofs: LedgerProofs
    http: UpstreamClient
    sources: SourceStore
    make_endings: MakeEndings

    async def in_force(self) -> None:
        """Return when committed changes apply in every process. Raises StoreUnavailable."""
        await heard_by_all(self.database, token=secrets.token_hex(8))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminCall:
    """One parsed and authorised request. `path`: its ids by the names in the route's path."""

    services: AdminServices
    actor: Actor
    path: Mapping[str, str]
    query: Any
    body: Any

    @property
    def registry(self) -> Registry:
        """The current models and channels."""
        return self.services.current.registry


class NoQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A route without parameters."""


Work = Callable[[AdminCall, Session], Awaitable[Any]]
# Of a response as `change` made it, or as it was kept (True), what the client is sent.
Finish = Callable[[AdminCall, Session, bytes, bool], Awaitable[Any]]
Until = Callable[[AdminCall, bytes], Awaitable[None]]
Read = Callable[[AdminCall], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path. Raises MisstatedRow.

    `change` runs in a transaction, which includes the audit's row; `read` opens its own sessions.
    `in_force`: the response waits until every process has received the change, and for what `until`
    waits for, which is given the response. `finish` adds, in
    the same transaction, what the response kept for an idempotency key must not contain. `scope`
    begins the scope of such keys where it is not `name`: keys are kept under it.
    `requests_per_minute` are those of a token, on whichever route, after which this one is refused.
    `refuses`: statuses of its own refusals, beside those of every route.
    """

    method: str
    path: str
    name: str
    summary: str
    response: Any
    change: Work | None = None
    read: Read | None = None
    body: type[Struct] | None = None
    query: type[Struct] = NoQuery
    status: int = 200
    in_force: bool = False
    until: Until | None = None
    finish: Finish | None = None
    scope: str | None = None
    body_bytes_max: int = BODY_BYTES_MAX
    requests_per_minute: int = REQUESTS_PER_MINUTE
    refuses: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        faults = {
            "its body is beyond the listener's bound": self.body_bytes_max > BODY_BYTES_MAX,
            "a token's requests are beyond the listener's bound": not (
                0 < self.requests_per_minute <= REQUESTS_PER_MINUTE
            ),
            "its function has a docstring, which is its summary": not self.summary,
            "it has either `change` or `read`": (self.change is None) == (self.read is None),
            "a GET changes nothing": self.method == "GET" and self.change is not None,
            "a GET has no body": self.method == "GET" and self.body is not None,
            "only a change is waited for or finished": self.change is None
            and (self.in_force or self.until is not None or self.finish is not None),
        }
        refuse_faults(str(self), faults)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_change(self) -> bool:
        """Whether a token needs the scope `write`."""
        return self.method != "GET"

    @property
    def takes_idempotency_key(self) -> bool:
        """Whether requests under one idempotency key have one effect."""
        return self.method == "POST" and self.change is not None

    def scope_of(self, path: Mapping[str, str]) -> str:
        """Return what a key is unique in: the kind of request, and the objects in its path."""
        return " ".join([self.scope or self.name, *path.values()])

    @property
    def names_things(self) -> bool:
        """Whether a request names objects that may be missing."""
        return "{" in self.path or self.body is not None or self.query is not NoQuery


def route(
    method: str,
    path: str,
    work: Callable[..., Awaitable[Any]],
    *,
    response: Any = None,
    finish: Finish | None = None,
    **members: Any,
) -> Route:
    """Return the route of a function: its name, docstring and result are those of the function.

    One that takes a session is a change. Raises MisstatedRow.
    """
    is_change = len(inspect.signature(work).parameters) > 1
    members["change" if is_change else "read"] = work
    return Route(
        method=method,
        path=path,
        name=work.__name__,
        summary=inspect.getdoc(work) or "",
        response=response or get_type_hints(finish or work, include_extras=True)["return"],
        finish=finish,
        **members,
    )


def by_path(routes: Sequence[Route]) -> dict[tuple[str, ...], dict[str, Route]]:
    """Return the routes by the segments of their paths, and by method. Raises MisstatedRow."""
    checked_table(routes, Route, lambda one: (str(one),))
    paths: dict[tuple[str, ...], dict[str, Route]] = {}
    for route in routes:
        paths.setdefault(tuple(route.path.split("/")), {})[route.method] = route
    return paths
