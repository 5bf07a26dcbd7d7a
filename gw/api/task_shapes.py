"""The members that tasks of every kind have in common, as clients see them."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

TaskId = Annotated[str, Meta(description="The id of the task.")]
TaskModel = Annotated[str, Meta(description="The model's id.")]
SubmittedAt = Annotated[int, Meta(description="When it was submitted, in Unix seconds.")]
ExpiresAt = Annotated[int, Meta(description="When the link expires, in Unix seconds.")]


class TaskError(TypedDict):
    """Why a task did not succeed."""

    code: Annotated[str, Meta(description="The error, for programs: the upstream's, or our own.")]
    message: Annotated[str | None, Meta(description="The error, for people.")]


TaskFailure = Annotated[TaskError, Meta(description="Why it did not succeed, if it did not.")]


class BegunTask(TypedDict):
    """A task that was accepted."""

    id: TaskId
    status: Annotated[str, Meta(description="`queued`, of speech `pending`.")]
    model: TaskModel
    created_at: SubmittedAt
