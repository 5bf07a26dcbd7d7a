"""Routing by Tornado's rules in their order.

Rules of one exact path are looked up in a dictionary, because each rule tried costs a regular
expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tornado.httputil import HTTPServerRequest
from tornado.routing import PathMatches, Rule
from tornado.web import Application

from gw.http.endpoint import HttpEndpoint


def rules_of(application: Application) -> Sequence[Rule]:
    """Return the rules of an application, in their order."""
    return application.wildcard_router.rules


def matches(rule: Rule, path: str) -> bool:
    """Whether the rule matches this path."""
    return _regex(rule).match(path) is not None


def only_path(rule: Rule) -> str | None:
    """Return the path of a rule that matches exactly one path, else None."""
    regex = _regex(rule)
    path: str = regex.pattern.removesuffix("$")
    return path if not regex.groups and regex.match(path) else None


def path_args_of(rule: Rule, request: HTTPServerRequest) -> Sequence[bytes] | None:
    """Return the groups of the path if the rule matches it, else None."""
    found: Mapping[str, Any] | None = rule.matcher.match(request)
    return None if found is None else found.get("path_args", ())


def _regex(rule: Rule) -> Any:
    assert isinstance(rule.matcher, PathMatches), rule
    return rule.matcher.regex


def rule_of(endpoint: HttpEndpoint) -> tuple[str, type[Any], dict[str, Any]]:
    """Return the rule of an endpoint, for Tornado's application."""
    return endpoint.path, endpoint.handler, {"endpoint": endpoint}


def _endpoint_of(rule: Rule) -> HttpEndpoint:
    endpoint: HttpEndpoint = rule.target_kwargs["endpoint"]
    return endpoint


class RouteTarget(NamedTuple):
    """An endpoint, and the parts of the path that it is called with."""

    endpoint: HttpEndpoint
    path_args: Sequence[bytes] = ()


class Routes:
    """The rules of an application."""

    def __init__(self, rules: Sequence[Rule], otherwise: RouteTarget) -> None:
        self._rules = rules
        self._otherwise = otherwise
        self._exact: dict[str, RouteTarget] = {}
        for rule in rules:
            path = only_path(rule)
            # An earlier rule that matches the same path has precedence.
            if path is not None and self._first(path) is rule:
                self._exact[path] = RouteTarget(_endpoint_of(rule))

    def __repr__(self) -> str:
        return f"<Routes {len(self._rules)} rules {len(self._exact)} exact>"

    def find_target(self, request: HTTPServerRequest) -> RouteTarget:
        """Return the target of a request."""
        target = self._exact.get(request.path)
        if target is not None:
            return target
        for rule in self._rules:
            path_args = path_args_of(rule, request)
            if path_args is not None:
                return RouteTarget(_endpoint_of(rule), path_args)
        return self._otherwise

    def endpoint_at(self, target: str) -> HttpEndpoint:
        """Return the endpoint of a request's target, as far as it can be determined."""
        rule = self._first(target.partition("?")[0])
        return self._otherwise.endpoint if rule is None else _endpoint_of(rule)

    def _first(self, path: str) -> Rule | None:
        return next((rule for rule in self._rules if matches(rule, path)), None)
