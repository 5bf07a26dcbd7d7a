"""The query of a list of tasks, in the reference."""

from __future__ import annotations

from gw.api.reference.operation import Parameter, in_query, whole, words_of
from gw.media import task_list


def list_parameters(kind: task_list.ListKind) -> tuple[Parameter, ...]:
    """Return the parameters of a list."""
    return (
        in_query(
            "limit",
            f"How many; more than {task_list.LIMIT_MAX} is {task_list.LIMIT_MAX}.",
            whole(1, default=task_list.LIMIT_DEFAULT),
        ),
        in_query(
            "status",
            "Only tasks in these states; without it all.",
            words_of((*kind.states, task_list.ALL)),
        ),
        in_query("before", "The id of a task of the list: only older ones."),
    )
