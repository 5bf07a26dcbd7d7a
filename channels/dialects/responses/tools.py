"""Tools of the responses protocol as functions of any other, and their calls back.

A custom tool takes free text: it becomes a function of one argument. Tools in a namespace become
functions with its name as prefix. A tool of its own type that the client runs (a shell, a patch, a
search for tools) becomes the function that the table below describes. The client's form of a call
is encoded in the tool's own name, whatever name an upstream's protocol makes of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from channels.json.lenient import dumps
from channels.translation.call_arguments import object_in

FUNCTION = "function"
CUSTOM = "custom"
# The argument of a custom tool's function, and the member of its calls.
INPUT = "input"
# Items that add tools to the request's.
LISTS = frozenset(("additional_tools",))
_MARK = "\0"
_NAME_DIGEST_CHARACTERS = 8


# --- Tools that the client runs, by their type ---


def _schema(required: tuple[str, ...], **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _texts(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


_MILLISECONDS = {"type": "integer", "description": "How long it may take, in milliseconds."}
_OPERATIONS = ("create_file", "update_file", "delete_file")


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool without parameters, as a function; `member` of its calls has the arguments.

    `item` is the type of its calls, `prefix` that of their ids.
    """

    item: str
    prefix: str
    member: str
    description: str
    parameters: Mapping[str, Any]


CLIENT_TOOLS: Mapping[str, ClientTool] = {
    "local_shell": ClientTool(
        "local_shell_call",
        "lsh",
        "action",
        "Runs a command on the user's machine and returns what it prints.",
        _schema(
            ("command",),
            command=_texts('The program and its arguments, for example ["bash", "-lc", "ls"].'),
            working_directory=_text("The folder in which it runs."),
            timeout_ms=_MILLISECONDS,
            user=_text("The user as whom it runs."),
        ),
    ),
    "shell": ClientTool(
        "shell_call",
        "sh",
        "action",
        "Runs commands in a shell on the user's machine and returns what they print.",
        _schema(
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
        _schema(
            ("type", "path"),
            type={"type": "string", "enum": list(_OPERATIONS)},
            path=_text("The file's path."),
            diff=_text(
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
        _schema(("query",), query=_text("What is searched for.")),
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


def is_run_by_client(tool: Mapping[str, Any]) -> bool:
    """Whether the client runs a tool of `CLIENT_TOOLS`, and not the provider."""
    if tool.get("type") == "tool_search":
        return tool.get("execution") == "client"
    environment = tool.get("environment")
    return not isinstance(environment, Mapping) or environment.get("type") == "local"


# --- Names ---


class ToolNames:
    """Unique function names for the tools of one request."""

    __slots__ = ("_names", "_taken")

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}  # by namespace and name
        self._taken: set[str] = set()

    def __repr__(self) -> str:
        return f"<ToolNames {len(self._taken)}>"

    def of(self, namespace: str | None, name: str) -> str:
        """Return the function name for a tool of this namespace; the same for the same tool."""
        plain = name
        if namespace:
            plain = f"{namespace}{'' if namespace.endswith('__') else '__'}{name}"
        return self._named((namespace or "", name), plain)

    def of_type(self, kind: str) -> str:
        """Return the function name for a tool that has a type and no name."""
        return self._named((_MARK, kind), kind)

    def _named(self, key: tuple[str, str], found: str) -> str:
        known = self._names.get(key)
        if known is not None:
            return known
        if found in self._taken:
            digest = hashlib.sha256(dumps(key)).hexdigest()[:_NAME_DIGEST_CHARACTERS]
            found = f"{found}_{digest}"
        self._names[key] = found
        self._taken.add(found)
        return found


def own_name(kind: str, namespace: str | None, name: str) -> str | None:
    """Return the name of a tool's calls in responses; None for a plain function's."""
    if kind == FUNCTION and not namespace:
        return None
    return _MARK.join((kind, namespace or "", name))


def named_call(name: str) -> tuple[str, str, str]:
    """Return the kind of tool that a call's name belongs to, its namespace, and its name there."""
    kind, mark, rest = name.partition(_MARK)
    namespace, second, inner = rest.partition(_MARK)
    if not (mark and second and (kind in (CUSTOM, FUNCTION) or kind in CLIENT_TOOLS)):
        return FUNCTION, "", name
    return kind, namespace, inner


# --- Arguments and results ---


def custom_parameters(form: Any) -> dict[str, Any]:
    """Return the schema of the argument. A grammar is described, as it cannot be enforced."""
    words = "The input of the tool as a whole, as plain text."
    if isinstance(form, Mapping) and isinstance(form.get("definition"), str):
        words = f"{words} It has to follow this {form.get('syntax')} grammar:\n{form['definition']}"
    return _schema((INPUT,), **{INPUT: _text(words)})


def stated_arguments(tool: ClientTool, call: Mapping[str, Any]) -> Any:
    """Return the arguments of a call returned by the client, as a model writes them."""
    stated = call.get(tool.member)
    if not isinstance(stated, Mapping) or tool.member != "action":
        return stated
    return {
        name: value
        for name, value in stated.items()
        if name != "type" and value is not None and value != {}
    }


def result_text(item: Mapping[str, Any]) -> str:
    """Return the result of a tool run by the client, as text."""
    output = item.get("output")
    if isinstance(item.get("tools"), list):
        output = {"tools": [_listed(tool) for tool in item["tools"] if isinstance(tool, Mapping)]}
    if output is None:
        output = item.get("status") or ""
    text = output if isinstance(output, str) else dumps(output).decode()
    return f"failed: {text}" if item.get("status") == "failed" and output else text


def _listed(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool found by a search, by name: the request's tools have the function itself."""
    inner = tool.get("tools")
    listed = {"name": tool.get("name"), "description": tool.get("description")}
    if isinstance(inner, list):
        listed["tools"] = [one.get("name") for one in inner if isinstance(one, Mapping)]
    return {name: value for name, value in listed.items() if value is not None}


def call_item(name: str, call_id: str, arguments: str | None) -> tuple[str, dict[str, Any]]:
    """Return the kind and the members of a call's item; `arguments` are None at its beginning."""
    kind, namespace, name = named_call(name)
    if tool := CLIENT_TOOLS.get(kind):
        given = _client_arguments(kind, object_in(arguments or "{}") or {})
        members = {"call_id": call_id, tool.member: given}
        return tool.item, {**members, "execution": "client"} if kind == "tool_search" else members
    members = {"call_id": call_id, "name": name}
    if namespace:
        members["namespace"] = namespace
    if kind == CUSTOM:
        return "custom_tool_call", {**members, INPUT: custom_input(arguments or "")}
    return "function_call", {**members, "arguments": arguments or ""}


def custom_input(arguments: str) -> str:
    """Return the free text of a custom tool's call; the arguments unchanged if they have none."""
    given = object_in(arguments) if arguments else {INPUT: ""}
    text = None if given is None else given.get(INPUT)
    return text if isinstance(text, str) else arguments


def _client_arguments(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the model's arguments to those that clients of the protocol can read.

    Without usable arguments, the client gets nothing to run.
    """
    if kind == "tool_search":
        return dict(given)
    if kind == "apply_patch":
        stated = given.get("type")
        operation = {"type": stated if stated in _OPERATIONS else "update_file"}
        operation["path"] = _string(given, "path")
        if stated != "delete_file":
            operation["diff"] = _string(given, "diff")
        return operation
    if kind == "shell":
        action: dict[str, Any] = {"commands": _strings(given.get("commands"))}
        numbers = ("timeout_ms", "max_output_length")
        return action | {name: _number(given, name) for name in numbers}
    action = {"type": "exec", "command": _command(given.get("command")), "env": {}}
    if isinstance(env := given.get("env"), Mapping):
        action["env"] = {key: value for key, value in env.items() if isinstance(value, str)}
    if (timeout := _number(given, "timeout_ms")) is not None:
        action["timeout_ms"] = timeout
    named = ("working_directory", "user")
    return action | {name: given[name] for name in named if _string(given, name)}


def _command(stated: Any) -> list[str]:
    """Return a program and its arguments; a line, as some models write, is run by a shell."""
    if isinstance(stated, str) and stated:
        return ["bash", "-lc", stated]
    return _strings(stated)


def _strings(stated: Any) -> list[str]:
    if isinstance(stated, str):
        return [stated] if stated else []
    is_list = isinstance(stated, list) and all(isinstance(one, str) for one in stated)
    return list(stated) if is_list else []


def _string(given: Mapping[str, Any], name: str) -> str:
    stated = given.get(name)
    return stated if isinstance(stated, str) else ""


def _number(given: Mapping[str, Any], name: str) -> int | None:
    stated = given.get(name)
    return stated if type(stated) is int else None
