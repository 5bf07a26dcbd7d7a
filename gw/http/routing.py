"""Which handler serves a path: the application's rules, with a short way for those of one path.

The rules and their order are Tornado's (`Application.wildcard_router`); tried one by one they would
cost a regular expression each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tornado.httputil import HTTPServerRequest
from tornado.routing import PathMatches, Rule


class Target(NamedTuple):
    """A handler's class, what it is made with, and the parts of the path that it is called with."""

    handler: Any  # a subclass of `Exchange`
    options: dict[str, Any]
    path_args: Sequence[bytes] = ()


class Routes:
    """The rules of an application."""

    def __init__(self, rules: Sequence[Rule], otherwise: Target) -> None:
        self._rules = rules
        self._otherwise = otherwise
        self._exact: dict[str, Target] = {}
        for rule in rules:
            path = _only_path(rule)
            # An earlier rule that takes the same path goes before it, here as in the list.
            if path is not None and self._first(path) is rule:
                self._exact[path] = Target(rule.target, rule.target_kwargs)

    def __repr__(self) -> str:
        return f"<Routes {len(self._rules)} rules {len(self._exact)} exact>"

    def find(self, request: HTTPServerRequest) -> Target:
        """The target of a request."""
        target = self._exact.get(request.path)
        if target is not None:
            return target
        for rule in self._rules:
            found = rule.matcher.match(request)
            if found is not None:
                return Target(rule.target, rule.target_kwargs, found.get("path_args", ()))
        return self._otherwise

    def handler_at(self, target: str) -> Any:
        """The handler's class of a request line's target, as far as that can be told."""
        path = target.partition("?")[0]
        for rule in self._rules:
            if _pattern(rule).match(path):
                return rule.target
        return self._otherwise.handler

    def _first(self, path: str) -> Rule:
        return next(rule for rule in self._rules if _pattern(rule).match(path))


def _pattern(rule: Rule) -> Any:
    assert isinstance(rule.matcher, PathMatches), rule
    return rule.matcher.regex


def _only_path(rule: Rule) -> str | None:
    """The path of a rule that has no groups and is met by its own text; None for others."""
    regex = _pattern(rule)
    path: str = regex.pattern.removesuffix("$")
    return path if not regex.groups and regex.match(path) else None
