"""What a wire's functions are given, and what they give back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import JSON, encode
from loadtests.simulator.directives import Directive
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.tasks.book import TaskBook
from loadtests.simulator.tasks.files import File, Files, base_of
from loadtests.simulator.tasks.task import Plan, Task, plan_of

Json = dict[str, Any]

DAY: Final = 86_400.0


class WireRefusal(Refusal):
    """A refusal with the wire's own word or number for it."""

    def __init__(self, status: int, message: str, code: int | str) -> None:
        super().__init__(status, message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; pieces in place of a body where it is long."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON
    lines: bytes = b""  # more header lines
    pieces: list[bytes] | None = None


class Wire(Protocol):
    """One protocol or dialect, as far as all of its endpoints share it."""

    name: str
    honours_keys: bool  # whether an `Idempotency-Key` means anything to it

    def authenticate(self, exchange: Exchange) -> str:
        """The upstream key of the request; raises Refusal 401 without one."""

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        """Status and body of an error; `code` is the wire's own word for it, if one was given."""

    def too_many(self, what: str) -> Refusal:
        """The refusal of one more: `minute` or `tasks`."""


@dataclass(slots=True)
class Call:
    """One request, read."""

    exchange: Exchange
    wire: Wire
    api_key: str
    path: tuple[str, ...]  # what stands in the route's open places
    body: Json  # empty where there is none
    directive: Directive
    book: TaskBook
    files: Files
    now: float
    usual_seconds: float  # that a task takes
    parts: dict[str, Any] = field(default_factory=dict)

    @property
    def base(self) -> str:
        """The address that was asked, for links."""
        return base_of(self.exchange)

    def plan(self) -> Plan:
        return plan_of(self.directive, self.usual_seconds)

    def begin(
        self,
        kind: str,
        prefix: str,
        made_seconds: float = 0.0,
        *,
        task_id: str | None = None,
        **facts: Any,
    ) -> Task:
        """A new task, remembered; its id is a new one behind `prefix` unless it is given."""
        key = self.exchange.header(b"idempotency-key").decode("latin-1")
        task = Task(
            id=prefix + self.book.new_id() if task_id is None else task_id,
            wire=self.wire.name,
            kind=kind,
            api_key=self.api_key,
            model=text_of(self.body, "model", "") or "",
            created_at=self.now,
            plan=self.plan(),
            made_seconds=made_seconds,
            facts=facts,
            parts=self.parts,
            idempotency_key=key,
        )
        self.book.add(task)
        return task

    def task(self, task_id: str, *kinds: str) -> Task:
        """A task of this wire and key; raises Refusal 404."""
        task = self.book.find(task_id, self.api_key)
        if task is None or task.wire != self.wire.name or (kinds and task.kind not in kinds):
            raise Refusal(404, f"The task {task_id!r} does not exist.")
        return task

    def link(
        self, task: Task, file: File, usual_life: float, *, is_renewed: bool = False
    ) -> tuple[str, int]:
        """A link to a file of a task that is over, and when it ends, in Unix seconds.

        `is_renewed`: who asks after its end gets another one, as a gateway gives it.
        """
        life = usual_life if task.plan.link_seconds is None else task.plan.link_seconds
        expires = task.updated_at(self.now) + life
        if is_renewed and int(expires) <= self.now and life > 0:
            expires = self.now + life
        return self.files.link(self.base, file, task.id, expires), int(expires)


Handler = Callable[[Call], Reply]


def json_reply(value: object, status: int = 200) -> Reply:
    return Reply(encode(value), status)


def text_of(body: Json, name: str, default: str | None = None) -> str:
    """A text member; raises Refusal 400 for another type, and where it must be there."""
    value = body.get(name, default)
    if not isinstance(value, str) or (default is None and not value):
        raise Refusal(400, f"Invalid '{name}': a text is required.")
    return value


def number_of(body: Json, name: str) -> float | None:
    """A number above zero, or None; raises Refusal 400 for anything else."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
        raise Refusal(400, f"Invalid '{name}': expected a number of seconds.")
    return float(value)


def ratio_of(text: str) -> tuple[int, int]:
    """`16:9` or `1280x720` as two numbers; what is neither is 16:9."""
    wide, _, high = text.replace("x", ":").partition(":")
    if wide.isdecimal() and high.isdecimal() and len(wide) < 6 and len(high) < 6:
        return max(1, int(wide)), max(1, int(high))
    return 16, 9


def contents_of(body: Json) -> list[Json]:
    """The `content` of a video request; raises Refusal 400 where it is none."""
    content = body.get("content")
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise Refusal(400, "Invalid 'content': expected an array of objects.")
    return content


def has_text(content: list[Json]) -> bool:
    return any(item.get("type") == "text" and item.get("text") for item in content)
