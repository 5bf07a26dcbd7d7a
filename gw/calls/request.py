"""A checked request, and the upstream request made of it: one plan per attempt.

A body of many values is processed in a helper process (`channels/offload`), because it would block
the loop; only this file decides it, by the weight of the body. Nothing here depends on HTTP, so a
whole call runs in a test without a socket.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from actors.routing import Candidate, ChannelView, candidates
from actors.wallet.pricing import Billable, TokenPrice
from actors.wallet.sheets import ADVISOR, has_region, has_tier, price_of
from channels.dialects.address import Address
from channels.dialects.dialect import ChatDialect, ParsedChatRequest
from channels.dialects.hosting import Hosted, Hosting, hosting_for
from channels.dialects.table import CHAT_DIALECTS, DIALECTS
from channels.dialects.token_counts import served_region
from channels.errors import InvalidRequest, TakesLong
from channels.families import DEARER_TIERS, SERVICE_TIERS
from channels.http.interfaces import UpstreamRequest, UpstreamResponse
from channels.json.weight import READ_VALUES_MAX, TRANSLATED_VALUES_MAX
from channels.offload.jobs import passthrough_job, submission_body
from channels.offload.pool import Helpers, OffloadFailed, OffloadFull
from channels.offload.process import Job, JobTooLong
from channels.registry import BUILTIN_TOOLS, PLAIN, ChannelSpec, ModelSpec
from channels.translation.paths import translation_between
from channels.translation.session import TranslatedCall, translated_body
from gw.calls.bills import OUTPUT_TOKENS_DEFAULT_MAX, tokens_of_bytes
from gw.calls.call import Call
from gw.calls.stream import Framing, SseFraming
from gw.errors import INVALID_REQUEST, NO_CHANNEL_AVAILABLE, GatewayError, invalid_request

_TOO_MANY_LARGE = "There are too many large requests at once: try again in a moment."
_TOO_LONG = "The request takes too long to be read or translated: send fewer values."


async def offloaded(
    helpers: Helpers, job: Job, body: bytes, *arguments: Any
) -> tuple[Any, bytes | None]:
    """Run a job in a helper process. Raises the errors of the job, or GatewayError."""
    try:
        return await helpers.run(job, body, *arguments)
    except JobTooLong as error:
        raise GatewayError(INVALID_REQUEST, _TOO_LONG) from error
    except (OffloadFull, OffloadFailed) as error:
        raise GatewayError(NO_CHANNEL_AVAILABLE, _TOO_MANY_LARGE) from error


class LargeSubmission:
    """The body of a media submission whose request is parsed in a helper process only.

    `reading` and `arguments`: the parser of the request, and its arguments after the body.
    """

    def __init__(
        self,
        body: bytes,
        helpers: Callable[[], Helpers],
        reading: Callable[..., Any],
        arguments: tuple[Any, ...],
    ) -> None:
        self._body = body
        self._helpers = helpers
        self._reading = reading
        self._arguments = arguments

    def __repr__(self) -> str:
        return f"<LargeSubmission {len(self._body)} bytes>"

    async def body_for(self, dialect: str, upstream_model: str, *, idempotency_key: str) -> bytes:
        """Return the body for a channel of this dialect. Raises GatewayError."""
        about = (self._reading, self._arguments, dialect, upstream_model, idempotency_key)
        _, written = await offloaded(self._helpers(), submission_body, self._body, *about)
        assert written is not None
        return written


def _no_helpers() -> Helpers:
    raise AssertionError("a form was read before, and is not edited in a helper process")


class ClientRequest(Struct, eq=False):
    """One checked request of any protocol; `weight`: the upper bound of its number of values.

    `path`: the values parsed from the request's path.
    """

    parsed: Any  # by the dialect
    protocol: str
    body: bytes
    weight: int = 0
    helpers: Callable[[], Helpers] = _no_helpers
    path: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.protocol} {len(self.body)} bytes>"

    def forget(self) -> None:
        """Release the bytes, once no other channel will be tried."""
        self.body = b""
        self.parsed.object.forget()

    async def offloaded_body(
        self, options: Mapping[str, Any], hosted: Hosted | None = None
    ) -> bytes:
        """Return the passthrough body (`Dialect`) of a heavy request. Raises InvalidRequest."""
        path = self.path or {}
        _, written = await self.offloaded(passthrough_job, self.protocol, path, options, hosted)
        return self.body if written is None else written

    async def run_job(self, job: Job, *arguments: Any, values_max: int) -> tuple[Any, bytes | None]:
        """Run a job on the body in this process, or offload it above `values_max` or when slow."""
        if self.weight <= values_max:
            try:
                return job(self.body, *arguments, is_here=True)
            except TakesLong:
                pass
        return await self.offloaded(job, *arguments)

    async def offloaded(self, job: Job, *arguments: Any) -> tuple[Any, bytes | None]:
        """Run a job on the body in a helper process."""
        return await offloaded(self.helpers(), job, self.body, *arguments)


class PieceRequest(ClientRequest):
    """A checked media request."""

    async def upstream_request(self, candidate: Candidate, channel: ChannelSpec) -> UpstreamRequest:
        """Return the request for this channel."""
        model, dialect = candidate.upstream_model, DIALECTS[self.protocol]
        options = {"upstream_model": model}
        if self.weight > READ_VALUES_MAX:
            body = await self.offloaded_body(options)
        else:
            body = dialect.passthrough_body(self.parsed, options)
        return dialect.address.request(
            channel, body, protocol=self.protocol, upstream_model=model, stream=False
        )


class FormUpload(PieceRequest, kw_only=True):
    """A checked form with files; `address` is its endpoint's."""

    address: Address

    async def upstream_request(self, candidate: Candidate, channel: ChannelSpec) -> UpstreamRequest:
        """Return the request for this channel."""
        model = candidate.upstream_model
        content_type, body = self.parsed.body_for(self.body, model)
        request = self.address.request(
            channel, body, protocol=self.protocol, upstream_model=model, stream=False
        )
        stated = ("Content-Type", content_type)
        others = (one for one in request.headers if one[0] != "Content-Type")
        return replace(request, headers=(*others, stated))


# The upstream request of a chat call, and how its response is parsed: one plan per attempt.
#
# A channel of the client's protocol gets the client's bytes, except for what the gateway must
# change; any other gets a translation (`channels/translation`), and the plan translates its
# response back.


class UpstreamPlan(Struct, frozen=True):
    """The request to one channel, the dialect of its response, and the translation back, if any.

    `hosting`: how the response is parsed if the dialect is hosted by another provider.
    """

    request: UpstreamRequest
    dialect: ChatDialect
    translated: TranslatedCall | None = None
    hosting: Hosting | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """The response headers of a translation (spec: Translation paths)."""
        if self.translated is None:
            return {}
        headers = {}
        if header := self.translated.translation.header:
            headers["X-Protocol-Translation"] = header
        warning = self.translated.report.warning()
        if warning is not None:
            headers["X-Protocol-Warning"] = warning
        return headers

    def served_tier(self, response: UpstreamResponse) -> str:
        """Return the tier in the head of a response, as its host names it; empty without any."""
        tier = None if self.hosting is None else self.hosting.tier
        return "" if tier is None else response.header(tier.name) or ""


class ChatClientRequest(ClientRequest, kw_only=True):
    """A checked request of a chat protocol.

    `own`: values for the dialect's own headers; these and `own_headers` are only sent to channels
    of the client's own protocol. `session` is the conversation's name in the client's headers.
    `is_repeated`: whether the account has sent a channel these tools and instructions minutes ago,
    by the members of the body. `is_strict`: nothing may be dropped (`X-Protocol-Strict: 1`).
    `redact`: applied to an upstream's messages. `address`: the endpoint's, if it is not the
    dialect's main one.
    """

    model: ModelSpec
    redact: Callable[[str], str]
    is_repeated: Callable[[Candidate, Mapping[str, Raw]], bool]
    own: Mapping[str, str] | None = None
    own_headers: tuple[tuple[str, str], ...] = ()
    session: str | None = None
    is_strict: bool = False
    address: Address | None = None

    async def plan_for(
        self, candidate: Candidate, channel: ChannelSpec, pin: str | None = None
    ) -> UpstreamPlan:
        """Return the plan for a channel, with the key of the conversation `pin`.

        Raises GatewayError if the channel's protocol cannot express the request.
        """
        chat: ParsedChatRequest = self.parsed
        protocol, upstream_model = candidate.protocol, candidate.upstream_model
        dialect, is_own = CHAT_DIALECTS[protocol], protocol == self.protocol
        own_headers = self.own_headers if is_own else ()
        address, hosting, hosted = self.address or dialect.address, None, None
        if channel.wire and (wire := channel.wire.get(protocol, PLAIN)) != PLAIN:
            wire, hosting = hosting_for(dialect.hostings, wire, upstream_model)
            hosted = Hosted(wire, own_headers)
            address, own_headers = (
                hosting.address,
                hosting.headers(own_headers, chat.parameters),
            )
        try:
            if hosting is not None and hosting.rewrite is not None and chat.fault is not None:
                raise chat.fault  # the dialect's own upstreams would judge it
            if is_own:
                options = dialect.options(upstream_model, channel, self.model)
                if self.address is not None:
                    options["default_max_tokens"] = None  # its endpoint may not have it
                if self.weight > READ_VALUES_MAX:
                    body = await self.offloaded_body(options, hosted)
                else:
                    body = dialect.passthrough_body(chat, options, hosted)
                translated = None
            else:
                translated, body = await self._translation(candidate, channel, hosted)
                self._refuse_losses(translated)
        except InvalidRequest as invalid:
            raise invalid_request(invalid) from None
        except RecursionError:
            # Parsed once, but with fewer frames on the stack.
            raise GatewayError(
                INVALID_REQUEST, "The request body is nested too deeply to be translated."
            ) from None
        request = address.request(
            channel,
            body,
            protocol=protocol,
            upstream_model=upstream_model,
            stream=chat.stream,
            own=self.own if is_own else None,
            extra_headers=own_headers,
            pin=pin,
        )
        return UpstreamPlan(request, dialect, translated, hosting)

    async def _translation(
        self, candidate: Candidate, channel: ChannelSpec, hosted: Hosted | None
    ) -> tuple[TranslatedCall, bytes]:
        """Return the translation back, and the body, for a channel. Raises InvalidRequest."""
        if self.parsed.fault is not None:  # an upstream of the client's dialect would judge it
            raise self.parsed.fault
        made, written = await self.run_job(
            translated_body,
            self.protocol,
            candidate.protocol,
            self._translation_options(candidate, channel, hosted),
            [name for name, _ in self.own_headers],
            hosted,
            values_max=TRANSLATED_VALUES_MAX,
        )
        assert written is not None
        translation = translation_between(
            self.protocol, candidate.protocol, runs_tools=bool(self.parsed.builtin_tools)
        )
        translated = TranslatedCall.resumed(
            translation, names=made.names, report=made.report, redact=self.redact
        )
        return translated, written

    def _translation_options(
        self, candidate: Candidate, channel: ChannelSpec, hosted: Hosted | None
    ) -> dict[str, Any]:
        """Return the facts of the channel and model that the request's translation needs."""
        dialect = CHAT_DIALECTS[candidate.protocol]
        maximum = self.parsed.max_tokens or self.model.max_output_tokens
        if maximum is None and dialect.needs_max_tokens:
            maximum = OUTPUT_TOKENS_DEFAULT_MAX
        options: dict[str, Any] = {
            "model": candidate.upstream_model,
            "stream": self.parsed.stream,
            "max_tokens": maximum,
        }
        if dialect.takes_max_tokens_param and channel.max_tokens_param is not None:
            options["max_tokens_param"] = channel.max_tokens_param
        # If cached input is not cheaper, writing a cache would only cost the client more.
        is_plain = hosted is None or dialect.hostings[hosted.wire].rewrite is None
        if dialect.marks_cache and is_plain and self.model.price.cached_input is not None:
            options["is_session"] = self.session is not None
            if self.session is None:
                options["is_repeated"] = self.is_repeated(candidate, self.parsed.object.raw)
        if dialect.has_system_anywhere:
            options["has_system_first"] = channel.has_system_first
        if dialect.takes_cache_key and channel.takes_cache_key:
            options["cache_key"] = self.session or ""
        if hosted is not None and dialect.hostings[hosted.wire].takes_tiers:
            options["takes_tiers"] = True
        return options

    def _refuse_losses(self, translated: TranslatedCall) -> None:
        """Raise GatewayError if a strict client's request would lose something."""
        warning = translated.report.warning()
        if warning is not None and self.is_strict:
            raise GatewayError(
                INVALID_REQUEST,
                f"The channel of this model speaks another protocol, which cannot say: {warning}.",
                param=translated.report.dropped[0],
            )


class ChatCall(Call, frozen=True, kw_only=True):
    """A chat call of any protocol."""

    forwards_usage: bool  # the client asked for the usage chunk
    pin: str | None  # the conversation, which keeps a channel and its key
    is_named: bool  # the client named the conversation
    request: ChatClientRequest
    billable: Billable | None = None  # if the price depends on it
    tools: tuple[str, ...] = ()  # the requested built-in tools
    tools_protocol: str | None = None  # the protocol that runs these, if not the client's
    framing: Framing = msgspec.field(default_factory=SseFraming)
    translations: Sequence[str] = ()  # protocols to which it may be translated
    cheaper: str = "or send a smaller max_tokens."


# The channels for a call with built-in tools, which the provider runs.
#
# No translation carries such a tool, so only channels of the client's protocol count; on
# chat-completions, whose tools run over responses, those of responses (contract §7: Built-in
# tools). Whether a channel of the model has a tool is known from the configuration, and checked
# before anything is held; the channels to try are chosen during the call.

# The model's flag for a tool (spec: Model catalog entry).
_CAPABILITIES = {"web_search": "web_search", "image_generation": "image_gen"}


def lacking_tool(
    tools: Sequence[str],
    model: ModelSpec,
    channels: Mapping[str, ChannelSpec],
    *,
    protocol: str,
    run_over: str,
    reached: Sequence[str] = (),
) -> str | None:
    """Return a tool that the model's channels lack; None also if no channel serves the model.

    `protocol`: the client's; `run_over`: the protocol that runs tools, different only on
    chat-completions; `reached`: the protocols to which the client's may be translated.
    """
    if not tools or model.endpoint_type is not None:
        return None
    speaking, reachable = [], set[str]()
    for binding in model.bindings:
        channel = channels[binding.channel_id]
        spoken = channel.spoken(binding.upstream_model or model.id)
        reachable |= spoken
        if run_over in spoken:
            speaking.append(channel)
    if not {protocol, run_over, *reached} & reachable:
        return None
    if run_over != protocol:
        for tool in tools:
            if not is_run_for(tool, model):
                return tool
    if any(_configured(tools) <= channel.tools for channel in speaking):
        return None
    offered = set().union(*(channel.tools for channel in speaking))
    return next((tool for tool in tools if tool not in offered), tools[0])


def is_run_for(tool: str, model: ModelSpec) -> bool:
    """Whether the gateway runs a tool for a model, unless the model's flags exclude it.

    For a model without flags the channels' configuration decides.
    """
    capability = _CAPABILITIES.get(tool)
    if capability is None:
        return False
    return not model.capabilities or capability in model.capabilities


def channels_for(
    call: ChatCall, channels: Mapping[str, ChannelView]
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the channels considered, in order, and those of them to try, which have the tools."""
    protocol = call.facts.protocol
    if not call.tools:
        usual = candidates(
            call.model, protocol, channels, pin=call.pin, translations=call.translations
        )
        return usual, usual
    considered = candidates(call.model, call.tools_protocol or protocol, channels, pin=call.pin)
    wanted = _configured(call.tools)
    return considered, [one for one in considered if wanted <= channels[one.channel_id].spec.tools]


def _configured(tools: Sequence[str]) -> frozenset[str]:
    """Return the tools that a configuration lists; the provider checks all others itself."""
    return frozenset(BUILTIN_TOOLS).intersection(tools)


# The most that a request may be billed by, if its model has more than the four plain prices.
#
# The service tier is a member of the request, parsed strictly: a dearer one without a price is
# refused (`unpriced`). Other members are searched for in the text of the body, since they only
# decide the hold; the charge follows the upstream's usage.

# The members of a tier, as spelled by the protocols.
SPEED = "speed"  # of messages, whose fast mode is no service tier
TIER_MEMBERS = ("service_tier", SPEED, "serviceTier")
REGION = "inference_geo"
_MEMBERS = frozenset((*TIER_MEMBERS, REGION))
_PREFIX = "service_tier_"  # of the native protocol's names
# Of a longer body only the first and the last half of this are searched, for a millisecond.
LOOKED_THROUGH_BYTES_MAX = 1024 * 1024
# The limit of tool calls in a hold.
TOOL_CALLS_MAX = 1000

# Prices of parts of the tokens: texts of which any one shows that a request may be billed by it.
_MARKS: Mapping[str, tuple[bytes, ...]] = {
    "audio_input": (b'"input_audio"', b'"audio/'),
    "image_input": (b'"image_url"', b'"input_image"', b'"image"', b'"image/'),
    "audio_output": (b'"modalities"', b'"AUDIO"'),
    "image_output": (b'"IMAGE"', b'"image_generation"'),
}
_HOUR = re.compile(rb'"ttl"\s*:\s*"1h"')
_TOOLS: Mapping[str, tuple[bytes, ...]] = {
    "per_web_search": (b'"web_search', b'"googleSearch', b'"google_search'),
    "per_file_search": (b'"file_search"', b'"fileSearch"'),
    "per_code_session": (b'"code_interpreter"', b'"code_execution', b'"codeExecution"'),
}
_USES = re.compile(rb'"max_(?:uses|tool_calls)"\s*:\s*(\d{1,9})')
_SIZE = re.compile(rb'"search_context_size"\s*:\s*"(low|medium|high)"')


def billed_by(model: ModelSpec, parameters: Mapping[str, str], body: bytes) -> Billable | None:
    """Return what a request is billed by besides plain tokens. Raises GatewayError."""
    price: TokenPrice = model.derived.get(TokenPrice) or price_of(model)
    is_plain = price.sheet is None and price.channels is None
    if is_plain and _MEMBERS.isdisjoint(parameters):
        return None
    tier = tier_named(model, price, parameters)
    region = region_named(model, price, parameters) if REGION in parameters else None
    return None if is_plain else billable_of(body, tier, region)


# The number of responses requested, by the names of `ParsedChatRequest.parameters`.
_CHOICES = (
    "n",
    "generationConfig.candidateCount",
    "generationConfig.candidate_count",
    "generation_config.candidateCount",
    "generation_config.candidate_count",
)


def choices_of(parameters: Mapping[str, str]) -> int:
    """Return how many responses a request asks for."""
    stated = next((parameters[name] for name in _CHOICES if name in parameters), "")
    return int(stated) if stated.isascii() and stated.isdigit() else 1


def tier_named(model: ModelSpec, price: TokenPrice, parameters: Mapping[str, str]) -> str | None:
    """Return the tier that a request names; None for the standard one.

    Raises GatewayError for a dearer one without a price, unless the model's policy is to bill it at
    the standard price.
    """
    for member in TIER_MEMBERS:
        tier = parameters.get(member, "").lower().removeprefix(_PREFIX)
        if tier not in SERVICE_TIERS:
            continue
        if tier == "fast" and member != SPEED:
            tier = "priority"  # the other name
        if tier in DEARER_TIERS and model.refuses_unpriced and not has_tier(price, tier):
            raise GatewayError(
                INVALID_REQUEST,
                f"{member}: `{parameters[member]}` has no price for the model `{model.id}`. "
                "Leave it out for the standard tier.",
                param=member,
            )
        return tier
    return None


def region_named(model: ModelSpec, price: TokenPrice, parameters: Mapping[str, str]) -> str:
    """Return the region that a request is limited to; empty where it may be served anywhere.

    Raises GatewayError like `tier_named`: providers charge for a region.
    """
    region = served_region(parameters.get(REGION)) or ""
    if region and model.refuses_unpriced and not has_region(price, region):
        raise GatewayError(
            INVALID_REQUEST,
            f"{REGION}: `{region}` has no price for the model `{model.id}`. "
            "Leave it out to be served anywhere.",
            param=REGION,
        )
    return region


def refuse_advisor(model: ModelSpec, tools: Sequence[str]) -> None:
    """Raise GatewayError for the adviser tool, whose tokens have no price.

    A model whose policy is `unpriced: standard` forwards it.
    """
    if ADVISOR in tools and model.refuses_unpriced:
        raise GatewayError(
            INVALID_REQUEST,
            f"tools: `{ADVISOR}` has no price for the model `{model.id}`. Leave it out.",
            param="tools",
        )


def billable_of(body: bytes, tier: str | None, region: str | None = None) -> Billable:
    """Return the members that a request may be billed by, in this tier and region."""
    text = body
    if len(body) > LOOKED_THROUGH_BYTES_MAX:
        half = LOOKED_THROUGH_BYTES_MAX // 2
        text = body[:half] + body[-half:]
    members = {name for name, marks in _MARKS.items() if any(mark in text for mark in marks)}
    if b'"cache_control"' in text and _HOUR.search(text):
        members.add("cache_write_1h")
    tools = {name: 1 for name, marks in _TOOLS.items() if any(mark in text for mark in marks)}
    if "per_web_search" in tools:
        uses = sum(int(found) for found in _USES.findall(text))
        tools["per_web_search"] = min(max(uses, 1), TOOL_CALLS_MAX)
    size = _SIZE.search(text)
    return Billable(
        tier=tier,
        region=region,
        input_tokens=tokens_of_bytes(len(body)),
        members=frozenset(members),
        tools=tools,
        search_size=None if size is None else size[1].decode(),
    )
