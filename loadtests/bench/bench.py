"""A run of the benchmark: starts what a piece of work needs, interleaves the windows, sums up."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from loadtests.bench.canned import model_name
from loadtests.bench.figures import Row, Window
from loadtests.bench.load import Ask, Subject
from loadtests.bench.machine import go_first, of_tree, pin, resident_mb, tree
from loadtests.bench.placement import Placement
from loadtests.bench.requests import CHANNELS, MESSAGES, chat_body, models, requests
from loadtests.bench.rig import (
    Against,
    Rig,
    Target,
    gateway,
    light_upstream,
    other_server,
    reference,
)
from loadtests.bench.window import VoidWindow, measure, measure_pass

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
    streams: tuple[int, ...] = (500, 2_000, 10_000)
    accounts: tuple[int, ...] = (1, 1_000, 10_000)
    burst_seconds: float = 10.0
    recover_seconds: float = 120.0
    settle_seconds: float = 3.0

    def within(self, files: int) -> Scale:
        """The same with as many streams as processes of so many open files can carry.

        A gateway has two connections for each.
        """
        most = (files - FILES_BESIDE_STREAMS) // 2
        return replace(self, streams=tuple(min(count, most) for count in self.streams))


FULL = Scale()
QUICK = Scale(0.4, 0.2, 2, (20, 40, 80), (1, 10, 40), 0.5, 5.0, 0.2)


@dataclass
class Bench:
    """The options, the rig, and what is known from earlier work of the same run."""

    placement: Placement
    scale: Scale
    rig: Rig
    others: Sequence[Against] = ()
    soak_minutes: float = 0.0
    verified: int = 0
    is_first: bool = False  # before other work of the machine

    @contextmanager
    def gateway(self, *asks: Ask, **options: Any) -> Iterator[Target]:
        """A gateway that knows what is asked for; its ledger is verified at the end.

        `options` are those of `rig.gateway`. Raises VerifyFailed.
        """
        options |= {"channels": CHANNELS, "models": models(sorted({ask.shape for ask in asks}))}
        with gateway(self.rig.upstream.url, placement=self.placement, **options) as target:
            yield target
        self.verified += 1

    @contextmanager
    def servers(self, *asks: Ask) -> Iterator[list[Target]]:
        """The rig alone, the reference, a gateway, and the others."""
        upstream = self.rig.upstream
        with ExitStack() as stack:
            bare, *others = (
                stack.enter_context(other_server(one, upstream, self.placement))
                for one in (reference(), *self.others)
            )
            yield [upstream, bare, stack.enter_context(self.gateway(*asks)), *others]

    def subject(
        self, target: Target, ask: Ask, *, name: str | None = None, keys: Sequence[str] = ()
    ) -> Subject:
        """A server with what is asked of it; its memory is that of now."""
        model = (f"{MESSAGES}-" if ask.is_translated else "") + model_name(*ask.shape)
        body = chat_body(model, is_stream=bool(ask.events), image_bytes=ask.image_bytes)
        asked = requests(target.host, keys or target.keys[:1], body)
        idle_mb = of_tree(resident_mb, target.pid)
        seconds = ask.window_seconds or self.scale.seconds
        return Subject(name or target.name, target, asked, ask, idle_mb, seconds)

    def compare(self, subjects: Sequence[Subject]) -> list[Row]:
        """Windows of the subjects by turns."""
        rows = [Row(subject.name) for subject in subjects]
        in_a_row = subjects[0].ask.in_a_row  # of one piece of work they are alike
        turns = -(-self.scale.windows // in_a_row)
        for turn in range(turns):
            for subject, row in zip(subjects, rows, strict=True):
                _say(f"turn {turn + 1} of {turns}, {subject.name}")
                # Each turn goes on with the keys where the last one may have stopped.
                skipped = turn * len(subject.requests) // self.scale.windows
                self._add(row, replace(subject, skipped=skipped))
                time.sleep(PAUSE_SECONDS)
        return rows

    def _add(self, row: Row, subject: Subject) -> None:
        """The windows of the opening of which other guests of the host took the least."""
        try:
            attempts = [self.measure(subject)]
            while _stolen(attempts[-1]) > STOLEN_MAX and len(attempts) < ATTEMPTS_MAX:
                _say(f"{_stolen(attempts[-1]):.1%} of the cores were taken: once more")
                attempts.append(self.measure(subject))
            best: list[Window] = min(attempts, key=_stolen)
            row.windows += best
        except VoidWindow as void:
            _say(f"void: {void}")
            row.windows += [None] * subject.ask.in_a_row
            row.voids += [str(void)] * subject.ask.in_a_row

    def measure(self, subject: Subject) -> list[Window]:
        """The windows of one opening, with the priority of the run. Raises VoidWindow.

        Each connection of PostgreSQL is a session of its own, and new ones are made under load.
        """
        if self.is_first:
            for root in filter(None, (subject.target.pid, subject.target.database_pid)):
                go_first(tree(root))
        return measure(subject, self.rig, warm_seconds=self.scale.warm_seconds)

    def half_rate(self, target: Target, ask: Ask) -> float:
        """Half of the calls a second of a gateway that has all it can take. Raises VoidWindow."""
        subject = self.subject(target, ask)
        return median(self.measure(subject)[0]["rate"] for _ in range(RATE_WINDOWS)) / 2

    def once(self, subject: Subject, calls: int) -> Window:
        """So many calls, from the first to the last. Raises VoidWindow."""
        return measure_pass(replace(subject, calls=calls), self.rig)

    def warm(self, targets: Sequence[Target], *asks: Ask) -> None:
        """Let every server do each of these once by each connection, so that it is at home in it.

        What is made once, whatever the load, is no growth under load. Raises VoidWindow.
        """
        for target in targets:
            for ask in asks:
                self.once(self.subject(target, ask), ask.connections)

    def every_key_once(self, subject: Subject) -> Row:
        """One call by each key of a subject, as a row: what a key costs that is new."""
        name = f"{subject.name}, the first call of each"
        try:
            return Row(name, [self.once(subject, len(subject.requests))])
        except VoidWindow as void:
            return Row(name, [None], [str(void)])

    @contextmanager
    def placed(self, placement: Placement) -> Iterator[Bench]:
        """The same bench with its load on other cores."""
        other = replace(self, placement=placement, rig=replace(self.rig, cores=len(placement.rig)))
        pin(os.getpid(), placement.load)
        try:
            yield other
        finally:
            pin(os.getpid(), self.placement.load)
        self.verified = other.verified


@contextmanager
def rig(placement: Placement) -> Iterator[Rig]:
    """The upstream, with this process as the load."""
    pin(os.getpid(), placement.load)
    with light_upstream(placement) as upstream:
        yield Rig(upstream, len(placement.rig))


def _stolen(windows: Sequence[Window]) -> float:
    """The largest share of the cores that others took in one of them."""
    return max(window["stolen"] for window in windows)


def _say(text: str) -> None:
    """Tell whoever waits how far it is."""
    print(text, file=sys.stderr, flush=True)
