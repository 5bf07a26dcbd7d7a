"""Tools of the responses protocol that the client runs, by their type, as functions.

A tool of its own type that the client runs (a shell, a patch, a search for tools) becomes the
function that the table describes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


def object_schema(
    required: tuple[str, ...], **properties: Mapping[str, object]
) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _texts(description: str) -> dict[str, object]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def text_schema(description: str) -> dict[str, object]:
    return {"type": "string", "description": description}


_MILLISECONDS = {"type": "integer", "description": "How long it may take, in milliseconds."}
OPERATIONS = ("create_file", "update_file", "delete_file")


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool without parameters, as a function; `member` of its calls has the arguments.

    `item` is the type of its calls, `prefix` that of their ids.
    """

    item: str
    prefix: str
    member: str
    description: str
    parameters: Mapping[str, object]


CLIENT_TOOLS: Mapping[str, ClientTool] = {
    "local_shell": ClientTool(
        "local_shell_call",
        "lsh",
        "action",
        "Runs a command on the user's machine and returns what it prints.",
        object_schema(
            ("command",),
            command=_texts('The program and its arguments, for example ["bash", "-lc", "ls"].'),
            working_directory=text_schema("The folder in which it runs."),
            timeout_ms=_MILLISECONDS,
            user=text_schema("The user as whom it runs."),
        ),
    ),
    "shell": ClientTool(
        "shell_call",
        "sh",
        "action",
        "Runs commands in a shell on the user's machine and returns what they print.",
        object_schema(
            ("commands",),
            commands=_texts("Shell commands, which run in this order."),
            timeout_ms=_MILLISECONDS,
            max_output_length={
                "type": "integer",
                "description": "How many characters of output are returned at most.",
            },
        ),
    ),
    "apply_patch": ClientTool(
        "apply_patch_call",
        "apc",
        "operation",
        "Creates, changes or deletes one file of the user's.",
        object_schema(
            ("type", "path"),
            type={"type": "string", "enum": list(OPERATIONS)},
            path=text_schema("The file's path."),
            diff=text_schema(
                "What changes in the file; nothing for delete_file. A line begins with + where it"
                " is added, with - where it is removed, with a space where it stays; a line @@"
                " with an optional heading begins each place. Of a new file all lines begin with +."
            ),
        ),
    ),
    "tool_search": ClientTool(
        "tool_search_call",
        "tsc",
        "arguments",
        "Searches for tools, which can be called once they are found.",
        object_schema(("query",), query=text_schema("What is searched for.")),
    ),
}
BY_CALL: Mapping[str, str] = {tool.item: kind for kind, tool in CLIENT_TOOLS.items()}
# Items with the result of a call.
RESULTS = frozenset(
    (
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
        "tool_search_output",
    )
)


def is_run_by_client(tool: Mapping[str, object]) -> bool:
    """Whether the client runs a tool of `CLIENT_TOOLS`, and not the provider."""
    if tool.get("type") == "tool_search":
        return tool.get("execution") == "client"
    environment = tool.get("environment")
    return not isinstance(environment, Mapping) or environment.get("type") == "local"
