"""Arguments and results of the responses protocol's own tools as those of functions, and back.

A custom tool takes free text: it becomes a function of one argument.
"""

from __future__ import annotations

from collections.abc import Mapping

from channels.dialects.responses import client_tools
from channels.dialects.responses.tool_names import CUSTOM, named_call
from channels.json.lenient import dumps, text_in
from channels.translation.call_arguments import object_in

# The argument of a custom tool's function, and the member of its calls.
INPUT = "input"


def custom_parameters(form: object) -> dict[str, object]:
    """Return the schema of the argument. A grammar is described, as it cannot be enforced."""
    words = "The input of the tool as a whole, as plain text."
    if isinstance(form, Mapping) and isinstance(form.get("definition"), str):
        words = f"{words} It has to follow this {form.get('syntax')} grammar:\n{form['definition']}"
    return client_tools.object_schema((INPUT,), **{INPUT: client_tools.text_schema(words)})


def stated_arguments(tool: client_tools.ClientTool, call: Mapping[str, object]) -> object:
    """Return the arguments of a call returned by the client, as a model writes them."""
    stated = call.get(tool.member)
    if not isinstance(stated, Mapping) or tool.member != "action":
        return stated
    return {
        name: value
        for name, value in stated.items()
        if name != "type" and value is not None and value != {}
    }


def result_text(item: Mapping[str, object]) -> str:
    """Return the result of a tool run by the client, as text."""
    output = item.get("output")
    if isinstance(tools := item.get("tools"), list):
        output = {"tools": [_listed(tool) for tool in tools if isinstance(tool, Mapping)]}
    if output is None:
        output = item.get("status") or ""
    text = output if isinstance(output, str) else dumps(output).decode()
    return f"failed: {text}" if item.get("status") == "failed" and output else text


def _listed(tool: Mapping[str, object]) -> dict[str, object]:
    """Return a tool found by a search, by name: the request's tools have the function itself."""
    inner = tool.get("tools")
    listed = {"name": tool.get("name"), "description": tool.get("description")}
    if isinstance(inner, list):
        listed["tools"] = [one.get("name") for one in inner if isinstance(one, Mapping)]
    return {name: value for name, value in listed.items() if value is not None}


def call_item(name: str, call_id: str, arguments: str | None) -> tuple[str, dict[str, object]]:
    """Return the kind and the members of a call's item; `arguments` are None at its beginning."""
    kind, namespace, name = named_call(name)
    if tool := client_tools.CLIENT_TOOLS.get(kind):
        given = _client_arguments(kind, object_in(arguments or "{}") or {})
        members: dict[str, object] = {"call_id": call_id, tool.member: given}
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


def _client_arguments(kind: str, given: Mapping[str, object]) -> dict[str, object]:
    """Convert the model's arguments to those that clients of the protocol can read.

    Without usable arguments, the client gets nothing to run.
    """
    if kind == "tool_search":
        return dict(given)
    if kind == "apply_patch":
        stated = given.get("type")
        operation: dict[str, object] = {
            "type": stated if stated in client_tools.OPERATIONS else "update_file"
        }
        operation["path"] = text_in(given, "path")
        if stated != "delete_file":
            operation["diff"] = text_in(given, "diff")
        return operation
    if kind == "shell":
        action: dict[str, object] = {"commands": _strings(given.get("commands"))}
        numbers = ("timeout_ms", "max_output_length")
        return action | {name: _number(given, name) for name in numbers}
    action = {"type": "exec", "command": _command(given.get("command")), "env": {}}
    if isinstance(env := given.get("env"), Mapping):
        action["env"] = {key: value for key, value in env.items() if isinstance(value, str)}
    if (timeout := _number(given, "timeout_ms")) is not None:
        action["timeout_ms"] = timeout
    named = ("working_directory", "user")
    return action | {name: given[name] for name in named if text_in(given, name)}


def _command(stated: object) -> list[str]:
    """Return a program and its arguments; a line, as some models write, is run by a shell."""
    if isinstance(stated, str) and stated:
        return ["bash", "-lc", stated]
    return _strings(stated)


def _strings(stated: object) -> list[str]:
    if isinstance(stated, str):
        return [stated] if stated else []
    if not isinstance(stated, list) or not all(isinstance(one, str) for one in stated):
        return []
    return list(stated)


def _number(given: Mapping[str, object], name: str) -> int | None:
    stated = given.get(name)
    return stated if type(stated) is int else None
