"""Encode a canonical request as a responses body, and report what it cannot express.

System texts at the beginning become `instructions`, which upstreams require. The upstream must not
store anything: `store` is false (reference 2.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from channels.dialects.chat import encode
from channels.dialects.chat.generations import fit_sampling, generation_of
from channels.dialects.chat.members import PROVIDER
from channels.dialects.responses.members import TranslatedResponses
from channels.dialects.same_fields import write_fields
from channels.dialects.validation import unversioned
from channels.families import RESPONSES
from channels.json.written import Written
from channels.registry import BUILTIN_TOOLS
from channels.translation import losses
from channels.translation.identifiers import CACHE_KEY, IdentifierLimits, cache_key_of
from channels.translation.kept_tools import made_once
from channels.translation.media import data_uri, is_text, split_markdown, text_of
from channels.translation.model import (
    ClientProtocol,
    Effort,
    Format,
    Media,
    Reasoning,
    Refusal,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Turn,
    is_system,
)

# The end of a prompt's cached prefix: the only member of a part that both protocols share.
_BREAKPOINT = "prompt_cache_breakpoint"
# The protocol requires a name for every inline file.
_FILE_NAMES = {"application/pdf": "document.pdf"}

_OWN = RESPONSES.protocol


class ItemWriter:
    """Encodes system texts and turns of one request of the protocol `origin`, as items.

    A turn becomes messages, calls and results, each a separate item. Instructions within a
    conversation keep their position, under their own role, but for an upstream that takes them at
    the beginning alone (`has_system_first`): there they are the user's words.
    """

    __slots__ = ("_has_system_first", "_items", "_limits", "_origin", "_report")

    def __init__(
        self,
        origin: ClientProtocol,
        report: losses.LossReport,
        limits: IdentifierLimits,
        *,
        has_system_first: bool,
    ) -> None:
        self._has_system_first = has_system_first
        self._origin = origin
        self._report = report
        self._limits = limits
        self._items: list[Written] = []

    def __repr__(self) -> str:
        return f"<ItemWriter from {self._origin.protocol}, {len(self._items)} items>"

    def write(self, system: Sequence[Text], turns: Iterable[Turn]) -> tuple[str, list[Written]]:
        """Return the instructions, and all items in order: at least one, as upstreams require."""
        for text in system:
            losses.report_extras(
                self._origin, self._origin.system or self._origin.parts, text.extras, self._report
            )
        for turn in turns:
            if turn.name is not None:
                self._report.drop(losses.spelled(self._origin, "turn.name"))
            if turn.role == "user":
                self._write_user(turn)
            else:
                self._write_assistant(turn)
        instructions = "\n\n".join(text.text for text in system)
        if not self._items:
            self._put("developer", [{"type": "input_text", "text": instructions}])
            return "", self._items
        return instructions, self._items

    def _write_user(self, turn: Turn) -> None:
        spoken: list[tuple[str, Written]] = []
        for part in turn.parts:
            if isinstance(part, ToolResult):
                self._write_result(part)
            elif isinstance(part, Text | Media):
                written = self._content(part)
                if written is not None:
                    spoken.append((self._role(part), written))
            elif isinstance(part, Refusal):
                spoken.append(("user", {"type": "input_text", "text": part.text}))
            else:
                losses.report_part(self._origin, part, self._report)
        if not spoken and not any(isinstance(part, ToolResult) for part in turn.parts):
            spoken.append(("user", {"type": "input_text", "text": ""}))  # nothing could be said
        for role, parts in groupby(spoken, lambda one: one[0]):
            self._put(role, [written for _, written in parts])

    def _role(self, part: Text | Media) -> str:
        if not is_system(part):
            return "user"
        if self._has_system_first:
            self._report.drop(losses.spelled(self._origin, "turn.role"))
            return "user"
        return "developer"

    def _write_assistant(self, turn: Turn) -> None:
        """Write the items of the model's turn in order: a thought precedes what it led to."""
        spoken: list[Written] = []
        shown: list[Written] = []
        is_written = False
        for part in turn.parts:
            if isinstance(part, Text):
                self._lose_extras(part)
                texts, images = _text_and_images(part.text)
                spoken += texts
                shown += images
            elif isinstance(part, Refusal):
                spoken.append({"type": "refusal", "refusal": part.text})
            elif isinstance(part, ToolCall):
                self._put_spoken(spoken, shown)
                self._items.append(self._call(part))
                is_written = True
            elif isinstance(part, Thinking) and part.signature and part.signer == _OWN:
                self._put_spoken(spoken, shown)
                self._items.append(_reasoning(part.text, part.signature))
            else:
                losses.report_part(self._origin, part, self._report)
            is_written = is_written or bool(spoken or shown)
        if not is_written:
            spoken.append({"type": "output_text", "text": ""})  # it was all thinking
        self._put_spoken(spoken, shown)

    def _put_spoken(self, spoken: list[Written], shown: list[Written]) -> None:
        """Write the model's text and images so far."""
        if spoken:
            self._put("assistant", [*spoken])
        if shown:
            # An image of an earlier response is returned as text, which a model would read letter
            # by letter. Only the user's messages may have images.
            self._put("user", [*shown])
        spoken.clear()
        shown.clear()

    def _put(self, role: str, content: list[Written]) -> None:
        self._items.append({"type": "message", "role": role, "content": content})

    def _call(self, call: ToolCall) -> Written:
        if call.signature is not None:
            self._report.drop(losses.spelled(self._origin, "call.signature"))
        losses.report_extras(self._origin, self._origin.parts, call.extras, self._report)
        return {
            "type": "function_call",
            "call_id": self._limits.call_id(call.id),
            "name": self._limits.name(call.name),
            "arguments": call.arguments,
        }

    def _write_result(self, result: ToolResult) -> None:
        losses.report_extras(self._origin, self._origin.parts, result.extras, self._report)
        if result.is_error:
            self._report.drop(losses.spelled(self._origin, "is_error"))
        parts = [written for part in result.parts if (written := self._content(part)) is not None]
        output: str | list[Written] = parts
        if all(part["type"] == "input_text" for part in parts):
            output = "".join(part["text"] for part in parts)
        self._items.append(
            {
                "type": "function_call_output",
                "call_id": self._limits.call_id(result.call_id),
                "output": output,
            }
        )

    def _content(self, part: Text | Media) -> Written | None:
        """Return a part of the user's or a tool's message; None if it cannot be expressed."""
        self._lose_extras(part, carried=(_BREAKPOINT,))
        written: Written
        if isinstance(part, Text):
            written = {"type": "input_text", "text": part.text}
        elif part.kind == "image":
            url = part.url if part.data is None else data_uri(part)
            written = {"type": "input_image", "image_url": url}
            if part.detail is not None:
                written["detail"] = part.detail
        elif part.kind == "document" and (document := self._document(part)):
            written = document
        else:
            losses.report_media(self._origin, part, self._report)
            return None
        if isinstance(part, Media) and part.name is not None and "filename" not in written:
            self._report.drop(losses.spelled(self._origin, "media.name"))
        if part.extras.get(_BREAKPOINT) is not None:
            written[_BREAKPOINT] = part.extras[_BREAKPOINT]
        return written

    def _document(self, media: Media) -> Written | None:
        """Return the part of a document; a text file of other providers' clients becomes text.

        The provider's own clients choose the form themselves.
        """
        if not is_text(media) or self._origin.provider == PROVIDER:
            return _file(media)
        text = text_of(media.data or "")
        return None if text is None else {"type": "input_text", "text": text}

    def _lose_extras(self, part: Text | Media, *, carried: tuple[str, ...] = ()) -> None:
        extras, origin = part.extras, self._origin
        losses.report_extras(origin, origin.parts, extras, self._report, carried=carried)


def _text_and_images(text: str) -> tuple[list[Written], list[Written]]:
    """Split a text into its parts, and the images of an earlier response in it."""
    texts, images = [], []
    for piece in split_markdown(text) or [""]:  # an empty message is one part
        if isinstance(piece, Media):
            images.append({"type": "input_image", "image_url": data_uri(piece)})
        else:
            texts.append({"type": "output_text", "text": piece})
    return texts, images


def _reasoning(text: str, proof: str) -> Written:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"type": "reasoning", "summary": summary, "encrypted_content": proof}


def _file(media: Media) -> Written:
    if media.url is not None:
        return {"type": "input_file", "file_url": media.url}
    name = media.name or _FILE_NAMES.get(media.mime_type or "", "document")
    return {"type": "input_file", "filename": name, "file_data": data_uri(media)}


LIMITS = IdentifierLimits(name_characters_max=64, id_characters_max=64)
# Fields that the rest of the body decides, and those for which this protocol has no member.
_STATED_ELSEWHERE = frozenset(("max_tokens", "parallel_tools"))
# A smaller maximum is refused, and is what agents state to learn whether a model is there: nothing
# of theirs is lost by the least.
_MAX_TOKENS_MIN = 16
_LACKING = ("stop", "seed", "top_k", "count")
_NO_PARAMETERS: Mapping[str, object] = {"type": "object", "properties": {}}
# Members of the provider's other protocol with the same name here.
_SHARED = (
    "metadata",
    "moderation",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
)
_TOOLS = "tools."  # prefix of a tool's type, in a chat request's extras
_CHOICE = "tool_choice"
_ALLOWED = "tool_choice.allowed_tools.tools"
_OBFUSCATION = "stream_options.include_obfuscation"
# Requests the proof of thoughts, which only thinking models have.
_PROOFS = ["reasoning.encrypted_content"]


def tool_names(request: Request) -> Mapping[str, str]:
    """Return the tool names changed for this protocol, mapped to the client's own."""
    return LIMITS.names_back(request)


def encode_request(
    request: Request,
    *,
    model: str,
    stream: bool,
    max_tokens: int | None,
    report: losses.LossReport,
    has_system_first: bool = False,
    cache_key: str | None = None,
) -> Written:
    """Return the body for the upstream.

    `has_system_first` is for an upstream that takes instructions at the beginning alone.
    `cache_key`: the conversation's name beside the body, for an upstream that takes one.
    """
    items = ItemWriter(request.origin, report, LIMITS, has_system_first=has_system_first)
    instructions, written = items.write(request.system, request.turns)
    body: Written = {
        "model": model,
        "instructions": instructions,
        "input": written,
        "store": False,
    }
    if max_tokens is not None:
        body["max_output_tokens"] = max(max_tokens, _MAX_TOKENS_MIN)
    if stream:
        body["stream"] = True
    write_fields(request, TranslatedResponses, body, without=_STATED_ELSEWHERE)
    losses.report_lacking(request, _LACKING, report)
    carried = _write_tools(request, body, report)
    effort = None
    if request.reasoning is not None:
        effort = _write_reasoning(request.reasoning, request.origin, body, report, model=model)
    fit_sampling(request, body, report, model=model, effort=effort)
    if request.format is not None:
        body["text"] = {"format": _format(request.format, request, report)}
    if request.origin.provider == PROVIDER:
        carried |= _write_shared(request, body)
        cache_key = cache_key or ""  # both protocols have the member
    if key := cache_key_of(request, report, cache_key):
        body[CACHE_KEY] = key
        carried.add(CACHE_KEY)
    carried |= encode.write_tier(request, body)
    losses.report_members(request, report, carried=carried)
    return body


def _write_reasoning(
    reasoning: Reasoning,
    origin: ClientProtocol,
    body: Written,
    report: losses.LossReport,
    *,
    model: str,
) -> Effort | None:
    """Write the level of thinking, and if there may be thoughts, request their proof.

    Returns the level.
    """
    effort = encode.effort_word(reasoning, origin, report, model=model)
    if not generation_of(model).efforts:
        return None  # it refuses to be asked for thoughts
    shows = reasoning.shows_thoughts
    thinks = effort != "none" and reasoning != Reasoning(shows_thoughts=shows)
    if shows is None and origin.shows_thoughts and thinks:
        shows = True  # the default of that protocol
    stated: Written = {} if effort is None else {"effort": effort}
    if shows and effort != "none":
        stated["summary"] = "auto"
    if stated:
        body["reasoning"] = stated
    if thinks or shows:
        body["include"] = _PROOFS
    return effort


def _write_tools(request: Request, body: Written, report: losses.LossReport) -> set[str]:
    """Write functions, then the built-in tools as the client described them; return the extras."""
    carried = set()
    tools = [*made_once(request.tools, _functions, request.origin, report)]
    for name, described in _builtin(request).items():
        tools += described
        carried.add(name)
    if tools:
        body["tools"] = tools
        if request.parallel_tools is not None:
            body["parallel_tool_calls"] = request.parallel_tools
    choice = request.tool_choice
    if choice is not None and not tools:
        # Calling none is the default.
        if choice.forces_call or choice.allowed:
            report.drop(losses.spelled(request.origin, "tool_choice"))
    elif choice is not None:
        allowed = request.extras.get(_ALLOWED)
        body["tool_choice"] = _choice(choice, allowed if isinstance(allowed, list) else [])
        carried.add(_ALLOWED)
    elif (kind := _kind_chosen(request)) is not None:
        body["tool_choice"] = {"type": kind}
        carried.add(_CHOICE)
    return carried


def _builtin(request: Request) -> dict[str, list[Written]]:
    """Return the built-in tools of a chat request, by their names among its extras."""
    if request.origin.provider != PROVIDER:
        return {}
    return {
        name: tools
        for name, tools in request.extras.items()
        if name.startswith(_TOOLS)
        and unversioned(name.removeprefix(_TOOLS)) in BUILTIN_TOOLS
        and isinstance(tools, list)
    }


def _kind_chosen(request: Request) -> str | None:
    """Return the built-in tool that must be used, if a client names one as in responses."""
    choice = request.extras.get(_CHOICE)
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    return kind if isinstance(kind, str) and _TOOLS + kind in _builtin(request) else None


def _choice(choice: ToolChoice, builtin: list[Written]) -> str | Written:
    if choice.mode == "named":
        return _named(choice.name or "")
    if choice.allowed or builtin:
        tools = [*map(_named, choice.allowed), *builtin]
        return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
    return choice.mode


def _named(name: str) -> Written:
    return {"type": "function", "name": LIMITS.name(name)}


def _functions(
    tools: Sequence[Tool], origin: ClientProtocol, report: losses.LossReport
) -> list[Written]:
    return [_function(tool, origin, report) for tool in tools]


def _function(tool: Tool, origin: ClientProtocol, report: losses.LossReport) -> Written:
    losses.report_extras(origin, origin.tools, tool.extras, report)
    parameters = encode.write_parameters(tool, origin, report)
    function = {
        **_named(tool.name),
        "parameters": _NO_PARAMETERS if parameters is None else parameters,
        # The default is true here, and false in the client's protocol.
        "strict": encode.is_strict(tool, origin, report),
    }
    if tool.description is not None:
        function["description"] = tool.description
    return function


def _format(form: Format, request: Request, report: losses.LossReport) -> Written:
    if form.kind != "schema":
        return {"type": "text" if form.kind == "text" else "json_object"}
    return {"type": "json_schema", "schema": {}, **encode.schema_format(form, request, report)}


def _write_shared(request: Request, body: Written) -> set[str]:
    """Write members that only the two protocols of this provider have; return their names."""
    extras = request.extras
    carried = {name for name in _SHARED if extras.get(name) is not None}
    body.update((name, extras[name]) for name in sorted(carried))
    if extras.get("verbosity") is not None:
        body.setdefault("text", {})["verbosity"] = extras["verbosity"]
        carried.add("verbosity")
    if extras.get(_OBFUSCATION) is not None:
        body["stream_options"] = {"include_obfuscation": extras[_OBFUSCATION]}
        carried.add(_OBFUSCATION)
    return carried
