"""The routes that nouns have in common, made from their declaration (`gw/nouns/noun.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec import Struct

from actors.store.session import Session, Statements
from gw.admin.audit import Actor
from gw.admin.pagination import AccountQuery, Page, PageQuery, pages_of, shown
from gw.api.admin.table import AdminCall, Route
from gw.nouns.noun import Changes, Noun

N = TypeVar("N")
R = TypeVar("R")


class NounRoutes(Generic[N, R]):
    """Makes the routes of one noun; `view` shows its record, where that needs the services."""

    def __init__(
        self,
        noun: Noun[N, R],
        path: str,
        *,
        view: Callable[[AdminCall, R], Struct] | None = None,
    ) -> None:
        self._noun, self._path = noun, path
        self._view = view or (lambda call, record: noun.view(record))
        self._word = noun.title.lower()
        self._one = f"{path}/{{{self._word}_id}}"

    def list(
        self,
        summary: str,
        page: Callable[[Statements, Any], Awaitable[Page[R]]],
        query: type[PageQuery] = AccountQuery,
    ) -> Route:
        """Return the route of a page of records."""

        async def read(call: AdminCall) -> Page[Struct]:
            found = await page(call.services.database, call.query)
            return shown(found, partial(self._view, call))

        return Route(
            method="GET",
            path=self._path,
            name=f"list_{self._path}",
            summary=summary,
            query=query,
            response=pages_of(self._noun.View),
            read=read,
        )

    def show(self, summary: str, show: Callable[[Statements, str], Awaitable[R]]) -> Route:
        """Return the route of one record."""

        async def read(call: AdminCall) -> Struct:
            return self._view(call, await show(call.services.database, self._id(call)))

        return Route(
            method="GET",
            path=self._one,
            name=f"show_{self._word}",
            summary=summary,
            response=self._noun.View,
            read=read,
        )

    def create(
        self,
        summary: str,
        create: Callable[[Session, Actor, N], Awaitable[R]],
        *,
        scope: str | None = None,
    ) -> Route:
        """Return the route that creates a record."""

        async def change(call: AdminCall, session: Session) -> Struct:
            new = self._noun.new_of(call.body, call.registry)
            return self._view(call, await create(session, call.actor, new))

        return Route(
            method="POST",
            path=self._path,
            name=f"create_{self._word}",
            summary=summary,
            body=self._noun.New,
            response=self._noun.View,
            status=201,
            change=change,
            scope=scope,
        )

    def set(
        self, summary: str, change: Callable[[Session, Actor, str, Changes], Awaitable[R]]
    ) -> Route:
        """Return the route that changes settings."""

        async def set_(call: AdminCall, session: Session) -> Struct:
            changes = self._noun.changes_of(call.body, call.registry)
            return self._view(call, await change(session, call.actor, self._id(call), changes))

        return Route(
            method="PATCH",
            path=self._one,
            name=f"set_{self._word}",
            summary=summary,
            body=self._noun.Settings,
            response=self._noun.View,
            change=set_,
            in_force=True,
        )

    def do(
        self, verb: str, summary: str, act: Callable[[Session, Actor, str], Awaitable[R]]
    ) -> Route:
        """Return the route that does something with a record."""

        async def change(call: AdminCall, session: Session) -> Struct:
            return self._view(call, await act(session, call.actor, self._id(call)))

        return Route(
            method="POST",
            path=f"{self._one}/{verb}",
            name=f"{verb}_{self._word}",
            summary=summary,
            response=self._noun.View,
            change=change,
            in_force=True,
        )

    def _id(self, call: AdminCall) -> str:
        return call.path[f"{self._word}_id"]
