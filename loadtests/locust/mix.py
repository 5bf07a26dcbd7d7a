"""The mix of a run: families of endpoints by how many of the users they have, and their kinds.

A kind of request is what is sent, how it must end, and what follows it. A failure is a request
that ends otherwise: a refusal that was asked for is none, and an answer where there should have
been a refusal is one. And how many users there are at each moment: a ramp, a spike or a soak. No
locust here; who sends them is `users.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import yaml

# Parts of the run, each as (until, users at its end), both as shares of the whole. Between two
# points the users grow or shrink evenly; two points at one moment are a jump.
Points = Sequence[tuple[float, float]]

SHAPES: Mapping[str, Points] = {
    # Up to the peak, a while there: where does it begin to hurt?
    "ramp": ((0.0, 0.05), (0.8, 1.0), (1.0, 1.0)),
    # A fifth of the peak, suddenly all of it, and back: does it refuse quickly and recover?
    "spike": ((0.0, 0.2), (0.4, 0.2), (0.4, 1.0), (0.6, 1.0), (0.6, 0.2), (1.0, 0.2)),
    # The peak throughout: does anything grow or wear out?
    "soak": ((0.0, 0.2), (0.05, 1.0), (1.0, 1.0)),
}


def users_at(shape: str, elapsed_seconds: float, *, peak: int, seconds: float) -> int | None:
    """Return the number of users at this moment, at least one; None when the run is over."""
    share = elapsed_seconds / seconds
    if share >= 1.0:
        return None
    points = SHAPES[shape]
    for (start, low), (end, high) in pairwise(points):
        if start <= share < end:
            return max(1, round(peak * (low + (high - low) * (share - start) / (end - start))))
    raise AssertionError((shape, share))


# The variable of the environment that names the file of a run's settings, which users read.
RUN_FILE = "LOAD_RUN_FILE"
# Some 400 ms of text, event by event, as a model writes it.
PACED = {"events": 40, "delay_event_ms": 10}
# What a task may become, by any endpoint's words.
MADE, LOST = {"succeeded", "ready"}, {"failed", "expired", "cancelled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A streamed protocol: what is in its last event, and what ends each."""

    last: str
    event_end: str = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of request; `{model}` in its path or its body is the chat model of the run."""

    weight: int  # among those of its family
    path: str
    body: Mapping[str, Any] | None = None  # None: it is a GET
    statuses: frozenset[int] = frozenset({200})
    has: str = ""  # what stands in every answer of 200, beside its status
    stream: Stream | None = None
    is_complete: bool = True  # a stream ends with its last event
    leaves: bool = False  # the client goes after the first event
    sim: Mapping[str, Any] = field(default_factory=dict)  # what only the simulator does
    is_task: bool = False  # its answer has an id, which is asked for until it has ended
    detail_of: str = ""  # its answer is a list, of which one is asked for by this member

    def path_with(self, model: str) -> str:
        """Where it goes."""
        return self.path.replace("{model}", model)

    def body_with(self, model: str, *, has_simulator: bool) -> dict[str, Any] | None:
        """What is sent; None for a GET."""
        if self.body is None:
            return None
        body = dict(self.body)
        if body.get("model") == "{model}":
            body["model"] = model
        sim = {**(PACED if self.stream and "tools" not in body else {}), **self.sim}
        return {**body, "sim": sim} if sim and has_simulator else body


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Endpoints that are used together: the share of its users, how they think, what they do.

    `is_harmless` where it costs nothing, or only the chat model of the run, so that any gateway may
    be asked for it.
    """

    weight: int
    kinds: Mapping[str, Kind]
    think_seconds: tuple[float, float] = (0.1, 0.5)
    is_harmless: bool = False
    by_agents: bool = False  # asked with the keys of agents, which speak for nothing else


def _families() -> Mapping[str, Family]:
    written = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return msgspec.convert(written["families"], dict[str, Family])


FAMILIES = _families()


def chosen(names: Sequence[str], *, has_simulator: bool, has_agents: bool) -> dict[str, Family]:
    """The families of a run: by default all, without the simulator only those that are harmless."""
    wanted = {name: FAMILIES[name] for name in names} if names else FAMILIES
    return {
        name: one
        for name, one in wanted.items()
        if (has_simulator or one.is_harmless) and (has_agents or not one.by_agents)
    }


def kinds_of(family: Family, *, has_simulator: bool) -> dict[str, Kind]:
    """What its users do: what only the simulator can be asked for is left out without it."""
    return {name: kind for name, kind in family.kinds.items() if has_simulator or not kind.sim}
