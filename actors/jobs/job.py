"""A job as it is stored: its request, its channel, and its progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args
from uuid import UUID

import msgspec

from actors.wallet.jobs import EndState
from channels.media.model import TaskKind
from channels.media.replies import TaskResult

OpenState: TypeAlias = Literal["submitting", "queued", "running"]
State: TypeAlias = OpenState | EndState
STATES: tuple[State, ...] = (*get_args(OpenState), *get_args(EndState))
# States of a job that an upstream has accepted: no other is shown to its account.
VISIBLE: tuple[State, ...] = STATES[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job. Instants are in Unix seconds.

    `price` and `quantity` are those of `NewJob`, `request` too. From `channel_id` to `upstream_id`
    is None until an upstream has accepted it; `protocol` is its call's, `wire` the channel's by
    which it was submitted. An ended job has an `error_code` unless it succeeded, and then a result.
    """

    id: str
    kind: TaskKind
    state: State
    account_id: str
    key_id: str
    call_id: UUID
    protocol: str
    model: str
    request: Mapping[str, Any]
    price: Mapping[str, str]
    quantity: int
    submitted_at: float
    deadline_at: float
    channel_id: str | None
    wire: str | None
    upstream_model: str | None
    upstream_id: str | None
    progress: int | None
    stored_result: Mapping[str, Any] | None
    error_code: str | None
    error_message: str | None
    ended_at: float | None

    @property
    def has_ended(self) -> bool:
        """Is this its last state?"""
        return self.ended_at is not None

    @property
    def result(self) -> TaskResult | None:
        """What it brought; None unless it succeeded."""
        if self.stored_result is None:
            return None
        return msgspec.convert(self.stored_result, TaskResult)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """An upstream has accepted a job: where, and under which id.

    `wire` is the channel's protocol it went by, `upstream_model` the upstream's name of the model.
    `attempts` and `detail` are what the row will hold of the submission (`Outcome`), JSON values.
    """

    channel_id: str
    wire: str
    upstream_model: str
    upstream_id: str
    attempts: tuple[Mapping[str, Any], ...] = ()
    detail: Mapping[str, Any] | None = None
