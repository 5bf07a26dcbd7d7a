"""Which handler serves a path: the application's rules, with a short way for those of one path.

The rules and their order are Tornado's; tried one by one they would cost a regular expression each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tornado.httputil import HTTPServerRequest
from tornado.routing import Rule

from gw.http.tornado_adapter import matches, only_path, path_args_of


class Target(NamedTuple):
    """A handler's class, what it is made with, and the parts of the path that it is called with."""

    handler: Any  # a subclass of `TornadoHandler`
    options: dict[str, Any]
    path_args: Sequence[bytes] = ()


class Routes:
    """The rules of an application."""

    def __init__(self, rules: Sequence[Rule], otherwise: Target) -> None:
        self._rules = rules
        self._otherwise = otherwise
        self._exact: dict[str, Target] = {}
        for rule in rules:
            path = only_path(rule)
            # An earlier rule that takes the same path goes before it, here as in the list.
            if path is not None and self._first(path) is rule:
                self._exact[path] = Target(rule.target, rule.target_kwargs)

    def __repr__(self) -> str:
        return f"<Routes {len(self._rules)} rules {len(self._exact)} exact>"

    def find(self, request: HTTPServerRequest) -> Target:
        """Return the target of a request."""
        target = self._exact.get(request.path)
        if target is not None:
            return target
        for rule in self._rules:
            path_args = path_args_of(rule, request)
            if path_args is not None:
                return Target(rule.target, rule.target_kwargs, path_args)
        return self._otherwise

    def handler_at(self, target: str) -> Any:
        """Return the handler's class of a request's target, as far as that can be told."""
        rule = self._first(target.partition("?")[0])
        return self._otherwise.handler if rule is None else rule.target

    def _first(self, path: str) -> Rule | None:
        return next((rule for rule in self._rules if matches(rule, path)), None)
