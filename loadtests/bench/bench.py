"""A run of the benchmark: starts what a piece of work needs, interleaves the windows, sums up."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from gw.web.fronts import DEFAULT_FRONT, Front
from loadtests.bench.canned import FIRST_EVENTS, model_name
from loadtests.bench.figures import Row, Section, Window, summarise
from loadtests.bench.load import Plan, crew
from loadtests.bench.machine import tree_resident_mb
from loadtests.bench.placement import Placement
from loadtests.bench.requests import CHANNELS, MESSAGES, chat_body, models, requests
from loadtests.bench.rig import (
    Against,
    Target,
    gateway,
    light_upstream,
    other_server,
    reference,
)
from loadtests.bench.window import Rig, Subject, VoidWindow, measure

GATEWAY = "gateway"
FILES_BESIDE_STREAMS = 500
PAUSES_IN_A_WINDOW = 2
PAUSE_SECONDS = 0.2  # between windows, for the last settlements


@dataclass(frozen=True)
class Scale:
    """How long and how large. The figures to keep are those of the full scale."""

    seconds: float = 3.0
    warm_seconds: float = 0.7
    windows: int = 5
    streams: tuple[int, int, int] = (500, 2_000, 10_000)
    accounts: tuple[int, ...] = (1, 1_000, 10_000)
    burst_seconds: float = 10.0
    recover_seconds: float = 120.0

    def within(self, files: int) -> Scale:
        """The same with as many streams as processes of so many open files can carry.

        A gateway has two connections for each.
        """
        most = (files - FILES_BESIDE_STREAMS) // 2
        first, second, third = (min(count, most) for count in self.streams)
        return replace(self, streams=(first, second, third))


FULL = Scale()
QUICK = Scale(
    seconds=0.4,
    warm_seconds=0.2,
    windows=2,
    streams=(20, 40, 80),
    accounts=(1, 10, 40),
    burst_seconds=0.5,
    recover_seconds=5.0,
)


@dataclass(frozen=True)
class Ask:
    """What is asked in a piece of work, and by how many connections."""

    connections: int
    events: int = 0  # 0: no stream
    pause_ms: int = 0
    image_bytes: int = 0
    is_translated: bool = False
    rate: float | None = None
    opening_seconds: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Events and pause, as the upstream's model is named after."""
        return (self.events or FIRST_EVENTS, self.pause_ms)

    @property
    def model(self) -> str:
        """The model that answers so."""
        name = model_name(*self.shape)
        return f"{MESSAGES}-{name}" if self.is_translated else name


@dataclass
class Bench:
    """The options, the rig, and what is known from earlier work of the same run."""

    placement: Placement
    scale: Scale
    rig: Rig
    fronts: Sequence[Front] = (DEFAULT_FRONT,)
    others: Sequence[Against] = ()
    processes: int = 2
    soak_minutes: float = 0.0
    plain_rate: float | None = None  # calls a second of the gateway, saturated
    verified: int = 0

    @contextmanager
    def gateway(
        self,
        asks: Sequence[Ask],
        *,
        accounts: int = 1,
        processes: int = 1,
        front: Front | None = None,
        name: str = GATEWAY,
        placement: Placement | None = None,
    ) -> Iterator[Target]:
        """A gateway that knows what is asked for; its ledger is verified at the end.

        Raises VerifyFailed.
        """
        upstream = self.rig.upstream
        with gateway(
            f"http://{upstream.host}:{upstream.port}",
            channels=CHANNELS,
            models=models(sorted({ask.shape for ask in asks})),
            accounts=accounts,
            front=front or self.fronts[0],
            processes=processes,
            placement=placement or self.placement,
            name=name,
        ) as target:
            yield target
        self.verified += 1

    @contextmanager
    def servers(self, ask: Ask) -> Iterator[list[Target]]:
        """The rig alone, the reference, a gateway for each front, and the others."""
        upstream = self.rig.upstream
        url = f"http://{upstream.host}:{upstream.port}"
        with ExitStack() as stack:
            targets = [upstream]
            targets.append(stack.enter_context(other_server(reference(), url, self.placement)))
            for front in self.fronts:
                name = GATEWAY if front == self.fronts[0] else f"{GATEWAY} --front {front}"
                targets.append(stack.enter_context(self.gateway([ask], front=front, name=name)))
            for against in self.others:
                targets.append(stack.enter_context(other_server(against, url, self.placement)))
            yield targets

    def subject(
        self,
        target: Target,
        ask: Ask,
        *,
        name: str | None = None,
        keys: Sequence[str] = (),
    ) -> Subject:
        """A server with what is asked of it; its memory is that of now."""
        body = chat_body(ask.model, is_stream=bool(ask.events), image_bytes=ask.image_bytes)
        # A translated stream has other events around the same text.
        events = max(1, ask.events - FIRST_EVENTS) if ask.is_translated else ask.events
        plan = Plan(
            host=target.host,
            port=target.port,
            requests=requests(target.host, keys or target.keys[:1], body),
            connections=ask.connections,
            events=events if ask.events else 0,
            rate=ask.rate,
            opening_seconds=ask.opening_seconds,
        )
        return Subject(
            name=name or target.name,
            target=target,
            plan=plan,
            pause_ms=ask.pause_ms,
            idle_mb=tree_resident_mb(target.pid),
            wants_lag=bool(ask.image_bytes),
        )

    def compare(
        self, name: str, title: str, columns: Sequence[str], subjects: Sequence[Subject]
    ) -> Section:
        """Windows of the subjects by turns, and what they come to."""
        windows: dict[str, list[Window]] = {subject.name: [] for subject in subjects}
        voids: dict[str, list[str]] = {subject.name: [] for subject in subjects}
        for number in range(self.scale.windows):
            for subject in subjects:
                _say(f"{name}: window {number + 1} of {self.scale.windows}, {subject.name}")
                try:
                    windows[subject.name].append(self.window(subject))
                except VoidWindow as void:
                    _say(f"{name}: void, {void}")
                    voids[subject.name].append(str(void))
                time.sleep(PAUSE_SECONDS)
        rows = [Row(one.name, summarise(windows[one.name]), voids[one.name]) for one in subjects]
        return Section(name, title, columns, rows)

    def window(self, subject: Subject) -> dict[str, float]:
        """One window of a subject. Raises VoidWindow."""
        scale = self.scale
        # Every stream has an event in it, or nothing could be said of one.
        seconds = max(scale.seconds, PAUSES_IN_A_WINDOW * subject.pause_ms / 1000)
        return measure(subject, self.rig, seconds=seconds, warm_seconds=scale.warm_seconds)

    @contextmanager
    def placed(self, placement: Placement) -> Iterator[Bench]:
        """The same bench with its load on other cores."""
        with crew(placement.load) as load:
            rig = replace(self.rig, crew=load, cores=len(placement.rig))
            other = replace(self, placement=placement, rig=rig)
            yield other
            self.verified = other.verified


@contextmanager
def rig(placement: Placement) -> Iterator[Rig]:
    """Upstream and load."""
    with light_upstream(placement) as upstream, crew(placement.load) as load:
        yield Rig(load, upstream, len(placement.rig))


def _say(text: str) -> None:
    """Tell whoever waits how far it is."""
    print(text, file=sys.stderr, flush=True)
