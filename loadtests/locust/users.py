"""The locustfile: users of many accounts, their measurements, the shape of the run, its judgement.

Run by locust in a process of its own (`__main__.py`), never imported by anything else. Beside the
calls (`POST`) each stream reports its time to the first event (`FIRST`) and the gaps between its
events (`GAP`) as request types of their own.
"""

from __future__ import annotations

import random
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from locust import FastHttpUser, LoadTestShape, between, events, task
from locust.contrib.fasthttp import FAILURE_EXCEPTIONS

from loadtests.locust.mix import PATH, TERMINATOR, Kind, kinds
from loadtests.locust.shapes import SHAPES, users_at
from loadtests.locust.thresholds import Measured, Thresholds

FIRST, GAP, STREAM = "FIRST", "GAP", "stream"
SPAWN_PER_SECOND = 100  # locust warns of more: it would measure itself
# Whoever has waited for so long for a byte reports a failure.
PATIENCE_SECONDS = 60.0


@events.init_command_line_parser.add_listener
def add_arguments(parser: ArgumentParser) -> None:
    """What `__main__.py` hands over beside locust's own options."""
    parser.add_argument("--shape", choices=sorted(SHAPES), default="ramp")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--keys", default="", help="a file with one key a line")
    parser.add_argument("--model", default="sim-model")
    parser.add_argument("--has-simulator", action="store_true")
    parser.add_argument("--p95-first-event-ms", type=float, default=0.0)
    parser.add_argument("--failure-ratio", type=float, default=0.0)


class Client(FastHttpUser):
    """One user: makes a call, thinks for a moment, makes another."""

    wait_time = between(0.1, 0.5)
    network_timeout = connection_timeout = PATIENCE_SECONDS

    def on_start(self) -> None:
        """Take one of the keys, and keep it."""
        options = self.environment.parsed_options
        self.headers = {"Authorization": f"Bearer {random.choice(read_keys(options.keys))}"}
        self.mix = kinds(has_simulator=options.has_simulator)
        self.weights = [kind.weight for kind in self.mix.values()]

    @task
    def call(self) -> None:
        """Make one call of some kind and report how it went."""
        options = self.environment.parsed_options
        ((name, kind),) = random.choices(list(self.mix.items()), self.weights)
        started = time.perf_counter()
        with self.client.post(
            PATH,
            json=kind.body(options.model, has_simulator=options.has_simulator),
            name=name,
            headers=self.headers,
            stream=kind.is_stream,
            catch_response=True,
        ) as response:
            if response.status_code not in kind.statuses:
                response.failure(f"status {response.status_code}")
                return
            if kind.is_stream and response.status_code == 200:
                try:
                    fault = self.follow(response, kind, started)
                except FAILURE_EXCEPTIONS as error:
                    fault = f"broken: {error!r}"
                response.request_meta["response_time"] = (time.perf_counter() - started) * 1000
                if fault:
                    response.failure(fault)
                    return
            response.success()

    def follow(self, response: Any, kind: Kind, started: float) -> str:
        """Read a stream and measure it; return what is wrong with it, or nothing."""
        before: float | None = None
        is_complete = False
        for event in events_of(response):
            now = time.perf_counter()
            self.measured(FIRST if before is None else GAP, now - (before or started), len(event))
            before = now
            if kind.leaves:
                response._response.release()  # an answer in the middle closes its connection
                return ""
            is_complete = TERMINATOR in event
        if before is None:
            return "a stream without an event"
        if is_complete != kind.is_complete:
            return "no terminator" if kind.is_complete else "a terminator"
        return ""

    def measured(self, what: str, seconds: float, size: int) -> None:
        """Report one measurement of a stream."""
        self.environment.events.request.fire(
            request_type=what,
            name=STREAM,
            response_time=seconds * 1000,
            response_length=size,
            exception=None,
            context={},
        )


def events_of(response: Any) -> Iterator[bytes]:
    """The events of a stream, each at the moment it arrives."""
    while event := response._response.readline(b"\n\n"):
        yield event


def read_keys(path: str) -> list[str]:
    """The keys in a file."""
    return Path(path).read_text(encoding="utf-8").split()


class Shape(LoadTestShape):
    """Asks `shapes.py` how many users there are now."""

    use_common_options = True  # the peak is locust's own --users

    def tick(self) -> tuple[int, float] | None:
        """Called about once a second."""
        options = self.runner.environment.parsed_options
        peak = options.num_users or 1
        users = users_at(options.shape, self.get_run_time(), peak=peak, seconds=options.seconds)
        return None if users is None else (users, SPAWN_PER_SECOND)


@events.quitting.add_listener
def judge(environment: Any, **_: Any) -> None:
    """Decide the exit code: 0 when every threshold was kept."""
    options = environment.parsed_options
    if options.worker:  # the master has everybody's figures
        return
    stats = environment.stats
    calls = [entry for (_, method), entry in stats.entries.items() if method == "POST"]
    first = stats.entries.get((STREAM, FIRST))
    measured = Measured(
        calls=sum(entry.num_requests for entry in calls),
        failures=sum(entry.num_failures for entry in calls),
        p95_first_event_ms=first and first.get_response_time_percentile(0.95),
    )
    thresholds = Thresholds(
        p95_first_event_ms=options.p95_first_event_ms, failure_ratio=options.failure_ratio
    )
    environment.process_exit_code = 0
    for is_kept, line in thresholds.verdicts(measured):
        print(f"{'kept  ' if is_kept else 'BROKEN'}  {line}")
        if not is_kept:
            environment.process_exit_code = 1
