"""What a wire's functions are given and give back."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec

from loadtests.simulator.ask import Refusal
from loadtests.simulator.directives import Directive
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.files import File, Files, Reply, base_of, file_of
from loadtests.simulator.tasks.task import SUCCEEDED, Task, TaskBook

Json = dict[str, Any]
# Members of requests.
Text = Annotated[str, msgspec.Meta(min_length=1)]
Link = Annotated[str, msgspec.Meta(pattern="^https?://")]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]
Speed = Annotated[float, msgspec.Meta(ge=0.25, le=4)] | None

DAY: Final = 86_400.0
SUBMIT: Final = "submit"


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint, and the shape of its body. `part` is its part of directives."""

    method: str
    pattern: re.Pattern[str]
    part: str
    wire: Wire
    handler: Handler
    shape: Any
    query: str  # the parameter that names the task, where the path does not

    @property
    def protocol(self) -> str:
        """Under which name its requests are counted."""
        return self.wire.name if self.part == SUBMIT else f"{self.wire.name}.{self.part}"

    def respond(self, call: Call) -> Reply:
        """Check the body and answer it; raises Refusal."""
        try:
            msgspec.convert(call.body, self.shape)
        except msgspec.ValidationError as error:
            raise Refusal(400, f"Invalid request: {error}") from error
        made = self.handler(call)
        return made if isinstance(made, Reply) else Reply(msgspec.json.encode(made))


class Wire:
    """One protocol or dialect, and its endpoints.

    `error` makes status and body of an error, of its status, its message and the wire's own word
    for it, if one was given. `honours_keys`: an `Idempotency-Key` means something to it.
    """

    def __init__(
        self,
        name: str,
        error: Callable[[int, str, int | str | None], tuple[int, Json]],
        *,
        honours_keys: bool = False,
    ) -> None:
        self.name, self.error, self.honours_keys = name, error, honours_keys
        self.routes: list[Route] = []

    def serves(
        self, part: str, endpoint: str, shape: Any = Json, *, query: str = ""
    ) -> Callable[[Handler], Handler]:
        """Have a function answer an endpoint, `METHOD PATH`, with `*` where anything may stand."""

        def kept(handler: Handler) -> Handler:
            method, _, path = endpoint.partition(" ")
            pattern = re.compile(re.escape(path).replace(r"\*", "([^/]+)"))
            self.routes.append(Route(method, pattern, part, self, handler, shape, query))
            return handler

        return kept


@dataclass(slots=True)
class Call:
    """One request, read."""

    exchange: Exchange
    wire: Wire
    path: tuple[str, ...]  # what stands in the route's open places
    body: Json  # empty where there is none
    directive: Directive
    book: TaskBook
    files: Files
    now: float
    usual_seconds: float  # that a task takes
    parts: dict[str, Any] = field(default_factory=dict)

    @property
    def api_key(self) -> str:
        return self.exchange.api_key

    @property
    def base(self) -> str:
        """The address that was asked, for links."""
        return base_of(self.exchange)

    def begin(
        self, kind: str, prefix: str, made_seconds: float = 0.0, *, task_id: str = "", **facts: Any
    ) -> Task:
        """A new task, remembered; its id is a new one behind `prefix` unless it is given."""
        seconds = self.directive.task_seconds
        task = Task(
            id=task_id or prefix + self.book.new_id(),
            wire=self.wire.name,
            kind=kind,
            api_key=self.api_key,
            model=self.body.get("model") or "",
            created_at=self.now,
            directive=self.directive,
            seconds=self.usual_seconds if seconds is None else seconds,
            made_seconds=made_seconds,
            facts=facts,
            parts=self.parts,
            idempotency_key=self.exchange.header(b"idempotency-key").decode("latin-1"),
        )
        self.book.add(task)
        return task

    def task(self, kind: str = "", *, task_id: str = "") -> Task:
        """A task of this wire and key, the one in the path unless another is named; Refusal 404."""
        task = self.book.find(task_id or self.path[0], self.api_key)
        if task is None or task.wire != self.wire.name or kind not in ("", task.kind):
            raise Refusal(404, f"The task {task_id or self.path[0]!r} does not exist.")
        return task

    def is_usable(self, one: str, kind: str, presets: Container[str], task_id: str = "") -> bool:
        """Whether it may be used in a film: a preset, or the key's own and ready."""
        task = self.book.find(task_id or one, self.api_key)
        is_own = task is not None and task.kind == kind and task.state(self.now) == SUCCEEDED
        return is_own or one in presets

    def link(
        self, task: Task, file: File, usual_life: float, *, is_renewed: bool = False
    ) -> tuple[str, int]:
        """A link to a file of a task that is over, and when it ends, in Unix seconds.

        `is_renewed`: who asks after its end gets another one, as a gateway gives it.
        """
        life = task.life(usual_life)
        expires = task.updated_at(self.now) + life
        if is_renewed and int(expires) <= self.now and life > 0:
            expires = self.now + life
        return self.files.link(self.base, file, task.id, expires), int(expires)


Handler = Callable[[Call], Json | Reply]


def film_of(task: Task) -> File:
    """The film that a task has made."""
    return file_of("mp4", task.made_seconds, task.directive.file_bytes)
