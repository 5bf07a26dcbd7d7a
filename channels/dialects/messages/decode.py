"""Decode a messages request into the canonical one.

The body has been checked by `request.py`; a wrong type in a member that is read only here is an
InvalidRequest. `blocks.py` decodes blocks, `encode.py` is the reverse.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from channels.dialects.messages.blocks import BlockReader
from channels.dialects.messages.members import ORIGIN, TranslatedMessages, TranslatedTool
from channels.dialects.same_fields import read_fields
from channels.translation import model
from channels.translation.body_members import Members
from channels.translation.kept_tools import StatedTools, ToolKeeper, value_of
from channels.translation.turns import EMPTY, merged

# Levels that only other protocols have.
_UNKNOWN_EFFORTS = ("none", "minimal")
_SHOWS = {"summarized": True, "omitted": False}


def decode_request(body: Mapping[str, object]) -> model.Request:
    """Return the canonical request; `tools` may be JSON text, whose meaning is kept.

    Raises InvalidRequest with the faulty member.
    """
    members = Members(body)
    left_over: dict[str, object] = {}
    reader = BlockReader(left_over)
    for name in ("model", "stream"):
        members.any(name)
    system = reader.read_texts(members.any("system"), "system")
    turns, empty = _read_turns(members, reader, system)
    choice, parallel = _read_tool_choice(members, left_over)
    effort, form = _read_output(members, left_over)
    return model.Request(
        origin=ORIGIN,
        system=tuple(system),
        turns=turns,
        empty=tuple(empty),
        tools=_read_tools(members, left_over),
        tool_choice=choice,
        parallel_tools=parallel,
        format=form,
        reasoning=_read_reasoning(members, effort, left_over),
        user=_read_user(members, left_over),
        **read_fields(members, TranslatedMessages),
        # After all others, because it is what they have not read.
        extras={**left_over, **members.rest()},
    )


def _read_turns(
    members: Members, reader: BlockReader, system: list[model.Text]
) -> tuple[tuple[model.Turn, ...], list[str]]:
    """Return the turns, and the paths of the empty ones.

    Instructions before the first turn join `system`.
    """
    turns: list[model.Turn] = []
    empty: list[str] = []
    has_spoken = False
    for message in members.objects("messages"):
        role, content = message.text("role"), message.any("content")
        message.leave_over(reader.left_over, "messages")
        if role != "system":
            parts = tuple(reader.read(content))
            if not parts:
                empty.append(message.path("content"))
                parts = (EMPTY,)
            else:
                has_spoken = True
            turns.append(model.Turn("assistant" if role == "assistant" else "user", parts))
            continue
        texts = reader.read_texts(content, "messages")
        if not has_spoken:
            system.extend(texts)
        elif texts:  # no instructions are equivalent to empty ones
            turns.append(model.Turn("user", tuple(replace(text, is_system=True) for text in texts)))
    return merged(turns), empty


_KEEPER = ToolKeeper()


def _read_tools(members: Members, left_over: dict[str, object]) -> tuple[model.Tool, ...]:
    stated = members.any("tools")
    found = _KEEPER.find(stated)
    if found is None:
        found = _KEEPER.keep(stated, _stated_tools(value_of(stated)))
    left_over.update(found.left_over)
    return found.tools


def _stated_tools(stated: object) -> StatedTools:
    tools = []
    left_over: dict[str, object] = {}
    for tool in Members({"tools": stated}).objects("tools"):
        kind = tool.text("type")
        if kind not in (None, "custom"):
            left_over[f"tools.{kind}"] = True
            continue
        tool.required("name")
        fields = read_fields(tool, TranslatedTool)
        tools.append(model.Tool(**fields, extras=tool.rest()))
    return StatedTools(tuple(tools), left_over)


def _read_tool_choice(
    members: Members, left_over: dict[str, object]
) -> tuple[model.ToolChoice | None, bool | None]:
    stated = members.object("tool_choice")
    if stated is None:
        return None, None
    kind, name = stated.text("type"), stated.text("name")
    disabled = stated.boolean("disable_parallel_tool_use")
    choice = None
    if kind in ("auto", "none"):
        choice = model.ToolChoice(kind)  # type: ignore[arg-type]
    elif kind == "any":
        choice = model.ToolChoice("required")
    elif kind == "tool" and name:
        choice = model.ToolChoice("named", name)
    else:
        left_over["tool_choice"] = members.any("tool_choice")
    return choice, None if disabled is None else not disabled


def _read_output(
    members: Members, left_over: dict[str, object]
) -> tuple[model.Effort | None, model.Format | None]:
    """Read effort and format from their common member; the format has an older one too."""
    config = members.object("output_config")
    older = members.object("output_format")
    effort = None
    form = None
    if config is not None:
        word = config.text("effort")
        if word is not None and word not in _UNKNOWN_EFFORTS:
            effort = model.EFFORTS.get(word)
        if word is not None and effort is None:
            left_over["output_config.effort"] = word
        form = _read_format(config.object("format"), "output_config.format", left_over)
        config.leave_over(left_over, "output_config")
    if older is not None and form is None:
        form = _read_format(older, "output_format", left_over)
    return effort, form


def _read_format(
    stated: Members | None, path: str, left_over: dict[str, object]
) -> model.Format | None:
    if stated is None:
        return None
    schema = stated.mapping("schema")
    if stated.text("type") == "json_schema" and schema is not None:
        return model.Format("schema", schema=schema, is_strict=True)
    left_over[path] = True
    return None


def _read_reasoning(
    members: Members, effort: model.Effort | None, left_over: dict[str, object]
) -> model.Reasoning | None:
    stated = members.object("thinking")
    if stated is None:
        return None if effort is None else model.Reasoning(effort=effort)
    kind = stated.text("type")
    if kind not in ("enabled", "adaptive", "disabled"):
        left_over["thinking"] = members.any("thinking")
        return None if effort is None else model.Reasoning(effort=effort)
    budget = stated.integer("budget_tokens") if kind == "enabled" else None
    display = stated.text("display")
    return model.Reasoning(
        effort=effort,
        budget_tokens=budget,
        is_enabled=kind != "disabled",
        shows_thoughts=_SHOWS.get(display) if display is not None else None,
    )


def _read_user(members: Members, left_over: dict[str, object]) -> str | None:
    metadata = members.object("metadata")
    if metadata is None:
        return None
    user = metadata.text("user_id")
    metadata.leave_over(left_over, "metadata")
    return user
