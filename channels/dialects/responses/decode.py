"""Decode a responses request into the canonical one.

The body has been checked by `request.py`; a wrong type in a member that is read only here is an
InvalidRequest. `encode.py` is the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec.structs import replace

from channels.dialects.chat.content import read_audio, read_file, read_url
from channels.dialects.chat.members import SchemaFormat
from channels.dialects.responses import client_tools, tool_calls, tool_names
from channels.dialects.responses.members import ORIGIN, TranslatedResponses
from channels.dialects.responses.signatures import proven
from channels.dialects.same_fields import read_fields
from channels.families import RESPONSES
from channels.json.lenient import dumps, text_in
from channels.translation import model
from channels.translation.body_members import Members
from channels.translation.call_arguments import call_arguments
from channels.translation.identifiers import made_id
from channels.translation.media import linked_media
from channels.translation.turns import EMPTY, merged, without_refusals

# Items that add tools to the request's.
_LISTS = frozenset(("additional_tools",))


_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_SILENT = frozenset(("type", "id", "status"))  # labels of an item or a part, without content


class ItemsDecoder:
    """Decodes one item after the other to system texts and turns.

    Instructions are the first system text, followed by developer messages before all other items;
    later ones keep their position. An item is a message, a call, a result or a thought; calls that
    the provider ran are left over by name.

    `left_over` are unsupported members and parts, `empty` the paths of the empty messages,
    `more_tools` the lists of tools that items add to the request's.
    """

    __slots__ = (
        "_call_ids",
        "_call_names",
        "_has_spoken",
        "_names",
        "_turns",
        "empty",
        "left_over",
        "more_tools",
        "system",
    )

    def __init__(self, names: tool_names.ToolNames, left_over: dict[str, object]) -> None:
        self.system: list[model.Text] = []
        self.left_over = left_over
        self.empty: list[str] = []
        self.more_tools: list[Members] = []
        self._names = names
        self._turns: list[model.Turn] = []
        self._call_names: dict[str, str] = {}  # by the calls' ids
        self._call_ids: dict[str, str] = {}  # by the ids of their items
        self._has_spoken = False

    def __repr__(self) -> str:
        return f"<ItemsDecoder {len(self._turns)} turns, {len(self.left_over)} left over>"

    def turns(self) -> tuple[model.Turn, ...]:
        """Return the turns so far, with adjacent ones merged."""
        return merged(self._turns)

    def read(self, item: Mapping[str, object], path: str) -> None:
        """Add the next item, which is at `path`."""
        kind = item.get("type")
        if not isinstance(kind, str) or kind == "message":
            self._read_message(item, path)
            return
        read = _READERS.get(kind)
        if read is not None:
            read(self, item)
        elif kind in client_tools.BY_CALL:
            self._read_client_call(item, kind)
        elif kind in _LISTS:
            self.more_tools.append(Members(item, path))
        elif kind in client_tools.RESULTS:
            self._read_client_result(item, kind, path)
        elif kind == "computer_call":
            self.left_over[f"input.{kind}"] = True
            self._add_call(item, self._names.of(None, "computer"), item.get("action"))
        elif kind == "computer_call_output":
            self.left_over[f"input.{kind}"] = True
            self._read_result(item)
        else:
            self.left_over[f"input.{kind}"] = True

    def _add(self, role: model.Role, *parts: model.Part) -> None:
        self._has_spoken = True
        self._turns.append(model.Turn(role, parts))

    def _leave_over(self, item: Mapping[str, object], *known: str) -> None:
        for name, value in item.items():
            if name not in _SILENT and name not in known and value not in (None, [], {}):
                self.left_over[f"input.{name}"] = value

    def _read_message(self, item: Mapping[str, object], path: str) -> None:
        self._leave_over(item, "role", "content")
        role = item.get("role")
        parts = self.read_content(item.get("content"))
        if role in ("system", "developer"):
            self._read_system(parts)
        elif not parts:
            self.empty.append(f"{path}.content")
            self._turns.append(model.Turn("assistant" if role == "assistant" else "user", (EMPTY,)))
        elif role == "assistant":
            self._add("assistant", *parts)
        else:
            self._add("user", *without_refusals(parts))

    def _read_system(self, parts: Iterable[model.Text | model.Media | model.Refusal]) -> None:
        texts = []
        for part in without_refusals(parts):
            if isinstance(part, model.Text):
                texts.append(part)
            else:
                self.left_over[f"input.content.input_{part.kind}"] = True
        if not self._has_spoken:
            self.system.extend(texts)
        elif texts:  # no instructions are equivalent to empty ones
            spoken = tuple(replace(text, is_system=True) for text in texts)
            self._turns.append(model.Turn("user", spoken))

    def _read_function_call(self, item: Mapping[str, object]) -> None:
        self._leave_over(item, "call_id", "name", "namespace", "arguments")
        self._add_call(item, self._named(item), item.get("arguments"))

    def _read_custom_call(self, item: Mapping[str, object]) -> None:
        self._leave_over(item, "call_id", "name", "namespace", tool_calls.INPUT)
        given = item.get(tool_calls.INPUT)
        self._add_call(item, self._named(item), {tool_calls.INPUT: "" if given is None else given})

    def _read_client_call(self, item: Mapping[str, object], kind: str) -> None:
        """Decode a call of a tool that the client runs, as a call of the tool's function."""
        tool = client_tools.BY_CALL[kind]
        if item.get("execution") == "server":  # a search that the provider ran
            self.left_over[f"input.{kind}"] = True
            return
        call_id, item_id = _call_id(item), text_in(item, "id")
        if item_id:
            self._call_ids[item_id] = call_id
        arguments = tool_calls.stated_arguments(client_tools.CLIENT_TOOLS[tool], item)
        self._add_call(item, self._names.of_type(tool), arguments)

    def _read_client_result(self, item: Mapping[str, object], kind: str, path: str) -> None:
        """Decode the result of a client's tool; the tools that a search returns may be called."""
        if item.get("execution") == "server":
            self.left_over[f"input.{kind}"] = True
            return
        call_id = text_in(item, "call_id")
        if not call_id:  # one kind names its call by a single id, its item's or the call's
            item_id = text_in(item, "id")
            call_id = self._call_ids.get(item_id, item_id)
        if isinstance(item.get("tools"), list):
            self.more_tools.append(Members(item, path))
        text = tool_calls.result_text(item)
        parts = (model.Text(text),) if text else ()
        self._add("user", model.ToolResult(call_id, self._call_names.get(call_id), parts))

    def _named(self, item: Mapping[str, object]) -> str:
        return self._names.of(text_in(item, "namespace"), text_in(item, "name"))

    def _add_call(self, item: Mapping[str, object], name: str, arguments: object) -> None:
        if not isinstance(arguments, str):
            arguments = dumps({} if arguments is None else arguments).decode()
        call_id = _call_id(item) or made_id(RESPONSES.protocol, str(len(self._turns)), name)
        self._call_names[call_id] = name
        self._add("assistant", model.ToolCall(call_id, name, call_arguments(arguments)))

    def _read_result(self, item: Mapping[str, object]) -> None:
        self._leave_over(item, "call_id", "name", "namespace", "output")
        output = item.get("output")
        if output is not None and not isinstance(output, str | list):
            output = dumps(output).decode()
        call_id = _call_id(item)
        parts = without_refusals(self.read_content(output))
        self._add("user", model.ToolResult(call_id, self._call_names.get(call_id), parts))

    def _read_reasoning(self, item: Mapping[str, object]) -> None:
        self._leave_over(item, "summary", "content", "encrypted_content")
        text = _thought_in(item.get("summary")) or _thought_in(item.get("content"))
        proof = text_in(item, "encrypted_content")
        if proof:
            self._add("assistant", proven(text, proof))
        elif text:
            self._add("assistant", model.Thinking(text))

    def read_content(self, content: object) -> tuple[model.Text | model.Media | model.Refusal, ...]:
        """Return the parts of a content; unknown ones go to `left_over` by name."""
        if isinstance(content, str):
            return (model.Text(content),) if content else ()
        parts: list[model.Text | model.Media | model.Refusal] = []
        for part in content if isinstance(content, list) else ():
            if isinstance(part, str):
                parts.append(model.Text(part))
            elif isinstance(part, Mapping) and (read := self._read_part(part)) is not None:
                parts.append(read)
        return tuple(part for part in parts if not isinstance(part, model.Text) or part.text)

    def _read_part(
        self, part: Mapping[str, object]
    ) -> model.Text | model.Media | model.Refusal | None:
        kind = part.get("type")
        if kind in _TEXTS and isinstance(text := part.get("text"), str):
            return model.Text(text, _extras(part, "text"))
        if kind == "refusal" and isinstance(refusal := part.get("refusal"), str):
            return model.Refusal(refusal)
        if part.get("file_id") is not None:  # stored at the provider
            self.left_over[f"input.content.{kind}.file_id"] = part["file_id"]
            return None
        media: model.Media | None = None
        if kind == "input_image":
            media = read_url(
                {"url": part.get("image_url"), "detail": part.get("detail")},
                _extras(part, "image_url", "detail"),
                kind="image",
                member="input_image",
            )
        elif kind == "input_file":
            media = _read_file(part)
        elif kind == "input_audio":
            media = read_audio(part.get("input_audio"), _extras(part, "input_audio"))
        if media is None:
            self.left_over[f"input.content.{kind}"] = True
        return media


_READERS: Mapping[str, Callable[[ItemsDecoder, Mapping[str, object]], None]] = {
    "function_call": ItemsDecoder._read_function_call,
    "custom_tool_call": ItemsDecoder._read_custom_call,
    "function_call_output": ItemsDecoder._read_result,
    "custom_tool_call_output": ItemsDecoder._read_result,
    "reasoning": ItemsDecoder._read_reasoning,
}


def _read_file(part: Mapping[str, object]) -> model.Media | None:
    extras = _extras(part, "file_data", "file_url", "filename")
    address, name = part.get("file_url"), part.get("filename")
    if isinstance(address, str) and part.get("file_data") is None:
        name = name if isinstance(name, str) else None
        return linked_media("document", address, member="input_file", name=name, extras=extras)
    return read_file(part, extras, member="input_file")


def _thought_in(parts: object) -> str:
    """Join the paragraphs of a thought."""
    stated = [part.get("text") for part in _objects(parts)]
    return "\n\n".join(text for text in stated if isinstance(text, str) and text)


def _extras(part: Mapping[str, object], *known: str) -> dict[str, object]:
    return {
        name: value
        for name, value in part.items()
        if name not in _SILENT and name not in known and value not in (None, [])
    }


def _call_id(item: Mapping[str, object]) -> str:
    return text_in(item, "call_id") or text_in(item, "id")


def _objects(value: object) -> list[Mapping[str, object]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


_SUMMARIES = ("auto", "concise", "detailed")
# A thought always includes its proof, whether requested or not.
_ALWAYS_INCLUDED = "reasoning.encrypted_content"


def decode_request(body: Mapping[str, object]) -> model.Request:
    """Return the canonical request. Raises InvalidRequest with the faulty member."""
    members = Members(body)
    left_over: dict[str, object] = {}
    names = tool_names.ToolNames()
    tools = _read_tools(members, names, left_over)
    items = ItemsDecoder(names, left_over)
    if instructions := members.text("instructions"):
        items.system.append(model.Text(instructions))
    stated = members.any("input")
    if isinstance(stated, str):
        stated = [{"role": "user", "content": stated}]
    for index, item in enumerate(_objects(stated)):
        items.read(item, f"input[{index}]")
    known = {tool.name for tool in tools}
    for tool in _added_tools(items.more_tools, names, left_over):
        if tool.name not in known:
            known.add(tool.name)
            tools.append(tool)
    for name in ("model", "stream"):
        members.any(name)
    for one in members.array("include"):
        if one != _ALWAYS_INCLUDED:
            left_over[f"include.{one}" if isinstance(one, str) else "include"] = True
    form = _read_text(members, left_over)
    _read_inner(members.object("stream_options"), left_over)
    return model.Request(
        origin=ORIGIN,
        system=tuple(items.system),
        turns=items.turns(),
        empty=tuple(items.empty),
        tools=tuple(tools),
        tool_choice=_read_tool_choice(members, names, left_over),
        format=form,
        reasoning=_read_reasoning(members, left_over),
        **read_fields(members, TranslatedResponses),
        # After all others, because it is what they have not read.
        extras={**left_over, **members.rest()},
    )


def _read_inner(inner: Members | None, left_over: dict[str, object]) -> None:
    """Leave over the unread members of an object."""
    if inner is not None:
        inner.leave_over(left_over, inner.location)


def _added_tools(
    lists: Iterable[Members], names: tool_names.ToolNames, left_over: dict[str, object]
) -> Iterator[model.Tool]:
    """Yield the functions that items of the conversation add, which count as loaded."""
    for members in lists:
        for tool in _read_tools(members, names, left_over):
            extras = {name: one for name, one in tool.extras.items() if name != "defer_loading"}
            yield replace(tool, extras=extras)


def _read_tools(
    members: Members, names: tool_names.ToolNames, left_over: dict[str, object]
) -> list[model.Tool]:
    tools: list[model.Tool] = []
    for tool in members.objects("tools"):
        kind = tool.text("type")
        if kind == "namespace":
            namespace = tool.text("name") or ""
            if tool.text("description"):
                left_over["tools.description"] = True
            found = [(namespace, one) for one in tool.objects("tools")]
        else:
            found = [("", tool)]
        for namespace, one in found:
            kind = one.text("type") or ""
            if kind in (tool_names.FUNCTION, tool_names.CUSTOM):
                tools.append(_read_tool(one, kind, namespace, names))
            elif kind in client_tools.CLIENT_TOOLS and client_tools.is_run_by_client(one.whole()):
                tools.append(_read_client_tool(one, kind, names))
            else:
                left_over[f"tools.{kind}"] = True
    return tools


def _read_tool(tool: Members, kind: str, namespace: str, names: tool_names.ToolNames) -> model.Tool:
    name = tool.required("name")
    parameters = tool.mapping("parameters")
    if kind == tool_names.CUSTOM:
        parameters = tool_calls.custom_parameters(tool.whole().get("format"))
    return model.Tool(
        names.of(namespace, name),
        description=tool.text("description"),
        parameters=parameters,
        is_strict=tool.boolean("strict"),
        extras=tool.rest(),
        own_name=tool_names.own_name(kind, namespace, name),
    )


def _read_client_tool(tool: Members, kind: str, names: tool_names.ToolNames) -> model.Tool:
    """Decode a tool that the client runs to its function, which is known, or described in it."""
    described = client_tools.CLIENT_TOOLS[kind]
    for name in ("execution", "environment"):
        tool.any(name)
    return model.Tool(
        names.of_type(kind),
        description=tool.text("description") or described.description,
        parameters=tool.mapping("parameters") or described.parameters,
        extras=tool.rest(),
        own_name=tool_names.own_name(kind, None, kind),
    )


def _read_tool_choice(
    members: Members, names: tool_names.ToolNames, left_over: dict[str, object]
) -> model.ToolChoice | None:
    choice = members.any("tool_choice")
    if choice is None:
        return None
    if choice in ("auto", "none", "required"):
        return model.ToolChoice(choice)
    if isinstance(choice, Mapping):
        if name := _chosen(choice, names):
            return model.ToolChoice("named", name)
        if choice.get("type") == "allowed_tools":
            allowed = [_chosen(tool, names) for tool in _objects(choice.get("tools"))]
            if not all(allowed):
                left_over["tool_choice.tools"] = True
            mode = choice.get("mode")
            return model.ToolChoice(
                "required" if mode == "required" else "auto",
                allowed=tuple(name for name in allowed if name),
            )
    left_over["tool_choice"] = choice
    return None


def _chosen(choice: Mapping[str, object], names: tool_names.ToolNames) -> str:
    """Return the function that a choice names; empty if it names none."""
    kind, name = choice.get("type"), text_in(choice, "name")
    if isinstance(kind, str) and kind in client_tools.CLIENT_TOOLS:
        return names.of_type(kind)
    if kind not in (tool_names.FUNCTION, tool_names.CUSTOM) or not name:
        return ""
    return names.of(text_in(choice, "namespace"), name)


def _read_text(members: Members, left_over: dict[str, object]) -> model.Format | None:
    text = members.object("text")
    if text is None:
        return None
    form = _read_format(text.object("format"), left_over)
    _read_inner(text, left_over)
    return form


def _read_format(stated: Members | None, left_over: dict[str, object]) -> model.Format | None:
    kind = None if stated is None else stated.text("type")
    if stated is None or kind == "text":
        return None if stated is None else model.Format("text")
    if kind == "json_object":
        return model.Format("json")
    if kind == "json_schema":
        return model.Format("schema", **read_fields(stated, SchemaFormat))
    left_over["text.format"] = True
    return None


def _read_reasoning(members: Members, left_over: dict[str, object]) -> model.Reasoning | None:
    stated = members.object("reasoning")
    if stated is None:
        return None
    level, summary = stated.text("effort"), stated.text("summary")
    summary = summary or stated.text("generate_summary")
    effort = None if level is None else model.EFFORTS.get(level)
    if level is not None and effort is None:
        left_over["reasoning.effort"] = level
    if summary is not None and summary not in _SUMMARIES:
        left_over["reasoning.summary"] = summary
    _read_inner(stated, left_over)
    reasoning = model.Reasoning(
        effort=effort,
        shows_thoughts=True if summary in _SUMMARIES else None,
    )
    return None if reasoning == model.Reasoning() else reasoning
