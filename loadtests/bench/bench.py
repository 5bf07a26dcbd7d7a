"""A run of the benchmark: starts what a piece of work needs, interleaves the windows, sums up."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any, NamedTuple

from loadtests.bench.canned import CHANNELS, MESSAGES, chat_body, model_name, models, requests
from loadtests.bench.figures import Row, Window
from loadtests.bench.load import Ask, Subject
from loadtests.bench.window import VoidWindow, measure, measure_pass
from loadtests.rig import processes
from loadtests.rig.machine import go_first, of_tree, pin, resident_mb, tree
from loadtests.rig.placement import Placement

FILES_BESIDE_STREAMS = 200
RATE_WINDOWS = 3  # when only the rate is asked
# Where other guests of the host took more than this share of the cores, it is measured again.
STOLEN_MAX = 0.02
ATTEMPTS_MAX = 3
PAUSE_SECONDS = 0.2  # between windows, for the last settlements


class Bench(NamedTuple):
    """The options, and what surrounds the servers under test."""

    placement: Placement
    windows: int
    files: int  # that a process may open
    upstream: processes.Target
    verified: list[str]  # the gateways whose ledger was found right
    others: Sequence[processes.Against] = ()
    trees: Sequence[processes.Tree] = ()  # whose gateways are measured beside ours
    is_first: bool = False  # before other work of the machine

    @property
    def rig(self) -> processes.Rig:
        """What makes the load and answers it."""
        return processes.Rig(self.upstream, len(self.placement.rig))

    def streams(self, wanted: int) -> int:
        """As many as processes of so many open files can carry.

        A gateway has two connections for each, and the upstream those of every server.
        """
        servers = 2 + len(self.trees) + len(self.others)
        return min(wanted, (self.files - FILES_BESIDE_STREAMS) // servers)

    @contextmanager
    def gateways(self, *asks: Ask, **options: Any) -> Iterator[list[processes.Target]]:
        """Ours, then one of each other tree; they know what is asked for.

        `options` are those of `processes.gateway`. Raises VerifyFailed when they have ended.
        """
        known = models(sorted({ask.shape for ask in asks}))
        options |= {"channels": CHANNELS, "models": known, "placement": self.placement}
        targets = list[processes.Target]()
        with ExitStack() as stack:
            for own in (processes.OWN, *self.trees):
                # What a call costs is asked; one refused for overload has no bearing on it.
                calm = {"shed_delay_ms": 0} if own.knows("shed_delay_ms") else {}
                gateway = processes.gateway(self.upstream.url, own=own, settings=calm, **options)
                targets.append(stack.enter_context(gateway))
            yield targets
        self.verified.extend(target.name for target in targets)

    @contextmanager
    def servers(self, *asks: Ask) -> Iterator[list[processes.Target]]:
        """The rig alone, the reference, the gateways, and the other servers."""
        upstream, placement = self.upstream, self.placement
        with ExitStack() as stack:
            bare = stack.enter_context(processes.reference(upstream, placement))
            gateways = stack.enter_context(self.gateways(*asks))
            others = [processes.other_server(other, upstream, placement) for other in self.others]
            yield [upstream, bare, *gateways, *map(stack.enter_context, others)]

    def subject(
        self, target: processes.Target, ask: Ask, *, name: str = "", keys: Sequence[str] = ()
    ) -> Subject:
        """A server with what is asked of it; its memory is that of now."""
        model = (f"{MESSAGES}-" if ask.is_translated else "") + model_name(*ask.shape)
        body = chat_body(model, is_stream=bool(ask.events), image_bytes=ask.image_bytes)
        asked = requests(target.host, keys or target.keys[:1], body)
        row = name + target.suffix if name else target.name
        return Subject(row, target, asked, ask, of_tree(resident_mb, target.pid))

    def compare(self, subjects: Sequence[Subject]) -> list[Row]:
        """Windows of the subjects by turns."""
        rows = [Row(subject.name) for subject in subjects]
        in_a_row = subjects[0].ask.in_a_row  # of one piece of work they are alike
        turns = -(-self.windows // in_a_row)
        for turn in range(turns):
            for subject, row in zip(subjects, rows, strict=True):
                _say(f"turn {turn + 1} of {turns}, {subject.name}")
                # Each turn goes on with the keys where the last one may have stopped.
                skipped = turn * len(subject.requests) // self.windows
                self._add(row, subject._replace(skipped=skipped))
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
        return measure(subject, self.rig)

    def half_rate(self, target: processes.Target, ask: Ask) -> float:
        """Half of the calls a second of a gateway that has all it can take. Raises VoidWindow."""
        subject = self.subject(target, ask)
        return median(self.measure(subject)[0]["rate"] for _ in range(RATE_WINDOWS)) / 2

    def once(self, subject: Subject, calls: int) -> Window:
        """So many calls, from the first to the last. Raises VoidWindow."""
        return measure_pass(subject._replace(calls=calls), self.rig)

    def warm(self, targets: Sequence[processes.Target], *asks: Ask) -> None:
        """Let every server do each once by each connection: what is made once is no growth."""
        for target in targets:
            for ask in asks:
                self.once(self.subject(target, ask), ask.connections)

    @contextmanager
    def placed(self, placement: Placement) -> Iterator[Bench]:
        """The same bench with its load on other cores."""
        pin(os.getpid(), placement.load)
        try:
            yield self._replace(placement=placement)
        finally:
            pin(os.getpid(), self.placement.load)


def _stolen(windows: Sequence[Window]) -> float:
    """The largest share of the cores that others took in one of them."""
    return max(window["stolen"] for window in windows)


def _say(text: str) -> None:
    """Report the progress on stderr."""
    print(text, file=sys.stderr, flush=True)
