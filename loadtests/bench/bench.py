"""A run of the benchmark: starts what a piece of work needs, interleaves the windows, sums up."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from statistics import median

from loadtests.bench.canned import FIRST_EVENTS, model_name
from loadtests.bench.crew import crew
from loadtests.bench.figures import Row, Section, Window
from loadtests.bench.load import Plan
from loadtests.bench.machine import go_first, tree, tree_resident_mb
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
from loadtests.bench.window import Rig, Subject, VoidWindow, measure, measure_pass

GATEWAY = "gateway"
FILES_BESIDE_STREAMS = 200
RATE_WINDOWS = 3  # when only the rate is asked
# Where other guests of the host took more than this share of the cores, it is measured again.
STOLEN_MAX = 0.02
ATTEMPTS_MAX = 3
PAUSE_SECONDS = 0.2  # between windows, for the last settlements


@dataclass(frozen=True)
class Scale:
    """How long and how large. The figures to keep are those of the full scale."""

    seconds: float = 1.0
    warm_seconds: float = 0.5
    windows: int = 7
    streams: tuple[int, int, int] = (500, 2_000, 10_000)
    accounts: tuple[int, ...] = (1, 1_000, 10_000)
    burst_seconds: float = 10.0
    recover_seconds: float = 120.0
    settle_seconds: float = 3.0

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
    settle_seconds=0.2,
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
    opening_seconds: float = 0.0  # over which the connections begin
    in_a_row: int = 1  # windows of one opening
    window_seconds: float | None = None  # None: as the scale says
    is_opening_told: bool = False
    wants_inside: bool = False

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
    others: Sequence[Against] = ()
    processes: int = 2
    soak_minutes: float = 0.0
    plain_rate: float | None = None  # calls a second of the gateway, saturated
    verified: int = 0
    is_first: bool = False  # before other work of the machine

    @contextmanager
    def gateway(
        self,
        asks: Sequence[Ask],
        *,
        accounts: int = 1,
        processes: int = 1,
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
            processes=processes,
            placement=placement or self.placement,
            name=name,
        ) as target:
            yield target
        self.verified += 1

    @contextmanager
    def servers(self, *asks: Ask) -> Iterator[list[Target]]:
        """The rig alone, the reference, the gateway, and the others."""
        upstream = self.rig.upstream
        url = f"http://{upstream.host}:{upstream.port}"
        with ExitStack() as stack:
            targets = [upstream]
            targets.append(stack.enter_context(other_server(reference(), url, self.placement)))
            targets.append(stack.enter_context(self.gateway(asks)))
            for against in self.others:
                targets.append(stack.enter_context(other_server(against, url, self.placement)))
            yield targets

    def _prefer(self, target: Target) -> None:
        """Give a server and its database the priority of the run.

        Each connection of PostgreSQL is a session of its own, and new ones are made under load.
        """
        if self.is_first:
            for root in (target.pid, target.database_pid):
                go_first([] if root is None else tree(root))

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
            in_a_row=ask.in_a_row,
            seconds=ask.window_seconds or self.scale.seconds,
            is_opening_told=ask.is_opening_told,
            wants_inside=ask.wants_inside,
        )

    def compare(
        self, name: str, title: str, columns: Sequence[str], subjects: Sequence[Subject]
    ) -> Section:
        """Windows of the subjects by turns, and what they come to."""
        rows = {subject.name: Row(subject.name) for subject in subjects}
        turns = max(-(-self.scale.windows // subject.in_a_row) for subject in subjects)
        for turn in range(turns):
            for subject in subjects:
                _say(f"{name}: turn {turn + 1} of {turns}, {subject.name}")
                self._add(rows[subject.name], subject, turn)
                time.sleep(PAUSE_SECONDS)
        return Section(name, title, columns, list(rows.values()))

    def _add(self, row: Row, subject: Subject, turn: int) -> None:
        plan = subject.plan
        # Each turn goes on with the keys where the last one may have stopped.
        skipped = turn * len(plan.requests) // max(1, self.scale.windows)
        try:
            row.windows += self._undisturbed(replace(subject, plan=replace(plan, skipped=skipped)))
        except VoidWindow as void:
            _say(f"void: {void}")
            row.windows += [None] * subject.in_a_row
            row.voids += [str(void)] * subject.in_a_row

    def _undisturbed(self, subject: Subject) -> list[Window]:
        """The windows of the opening of which other guests of the host took the least.

        Raises VoidWindow.
        """
        attempts = [self.measure(subject)]
        while _stolen(attempts[-1]) > STOLEN_MAX and len(attempts) < ATTEMPTS_MAX:
            _say(f"{_stolen(attempts[-1]):.1%} of the cores were taken: once more")
            attempts.append(self.measure(subject))
        return min(attempts, key=_stolen)

    def measure(self, subject: Subject) -> list[Window]:
        """The windows of one opening. Raises VoidWindow."""
        self._prefer(subject.target)
        return measure(subject, self.rig, warm_seconds=self.scale.warm_seconds)

    def half_rate(self, target: Target, ask: Ask) -> float:
        """Half of the calls a second of a gateway that has as many as it can take.

        Measured once in a run. Raises VoidWindow.
        """
        if self.plain_rate is None:
            subject = self.subject(target, ask)
            rates = [self.measure(subject)[0]["rate"] for _ in range(RATE_WINDOWS)]
            self.plain_rate = median(rates)
        return self.plain_rate / 2

    def warm(self, targets: Sequence[Target], *asks: Ask) -> None:
        """Let every server do each of these once by each connection, so that it is at home in it.

        What is made once, whatever the load, is no growth under load. Raises VoidWindow.
        """
        for target in targets:
            for ask in asks:
                subject = self.subject(target, ask)
                plan = replace(subject.plan, calls=ask.connections)
                measure_pass(replace(subject, plan=plan), self.rig)

    def every_key_once(self, subject: Subject) -> Row:
        """One call by each key of a subject, as a row: what a key costs that is new."""
        row = Row(f"{subject.name}, the first call of each")
        _say(row.name)
        plan = replace(subject.plan, calls=len(subject.plan.requests))
        try:
            row.windows.append(measure_pass(replace(subject, plan=plan), self.rig))
        except VoidWindow as void:
            row.windows.append(None)
            row.voids.append(str(void))
        return row

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


def _stolen(windows: Sequence[Window]) -> float:
    """The largest share of the cores that others took in one of them."""
    return max(window["stolen"] for window in windows)


def _say(text: str) -> None:
    """Tell whoever waits how far it is."""
    print(text, file=sys.stderr, flush=True)
