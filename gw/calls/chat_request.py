"""The upstream request of a chat call, and how its response is parsed: one plan per attempt.

A channel of the client's protocol gets the client's bytes, except for what the gateway must
change; any other gets a translation (`channels/translation`), and the plan translates its
response back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from actors.routing import Candidate
from actors.wallet.pricing import Billable
from channels.dialects.address import Address
from channels.dialects.dialect import ChatDialect, ParsedChatRequest
from channels.dialects.hosting import Hosted, Hosting, hosting_for
from channels.dialects.table import CHAT_DIALECTS
from channels.errors import InvalidRequest
from channels.http.interfaces import UpstreamRequest, UpstreamResponse
from channels.json.weight import READ_VALUES_MAX, TRANSLATED_VALUES_MAX
from channels.registry import PLAIN, ChannelSpec, ModelSpec
from channels.translation.paths import translation_between
from channels.translation.session import TranslatedCall, translated_body
from gw.calls.call import Call
from gw.calls.chain import HEADER as CHAIN_HEADER
from gw.calls.chain import Chain
from gw.calls.request import ClientRequest
from gw.calls.stream_events import Framing, SseFraming
from gw.calls.token_charge import OUTPUT_TOKENS_DEFAULT_MAX
from gw.errors import INVALID_REQUEST, GatewayError, invalid_request


class UpstreamPlan(Struct, frozen=True):
    """The request to one channel, the dialect of its response, and the translation back, if any.

    `hosting`: how the response is parsed if the dialect is hosted by another provider.
    """

    request: UpstreamRequest
    dialect: ChatDialect
    translated: TranslatedCall | None = None
    hosting: Hosting | None = None
    chain: Chain | None = None
    served: str = ""  # the model of the chain that the request is for

    @property
    def headers(self) -> Mapping[str, str]:
        """The response headers of a translation (reference 3.1), and of a chain's model."""
        if self.translated is None and self.chain is None:
            return {}
        headers, warnings = {}, []
        if self.chain is not None:
            headers[CHAIN_HEADER], skipped = self.chain.headers(self.served)
            warnings.append(skipped)
        if self.translated is not None:
            if header := self.translated.translation.header:
                headers["X-Protocol-Translation"] = header
            warnings.append(self.translated.report.warning())
        if any(warnings):
            headers["X-Protocol-Warning"] = "; ".join(one for one in warnings if one)
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
        self,
        candidate: Candidate,
        channel: ChannelSpec,
        pin: str | None = None,
        chain: Chain | None = None,
    ) -> UpstreamPlan:
        """Return the plan for a channel, with the key of the conversation `pin`.

        Raises GatewayError if the channel's protocol cannot express the request.
        """
        chat: ParsedChatRequest = self.parsed
        model = self.model if chain is None else chain.steps[candidate.step].model
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
                options = dialect.options(upstream_model, channel, model)
                if self.address is not None:
                    options["default_max_tokens"] = None  # its endpoint may not have it
                if self.weight > READ_VALUES_MAX:
                    body = await self.offloaded_body(options, hosted)
                else:
                    body = dialect.passthrough_body(chat, options, hosted)
                translated = None
            else:
                translated, body = await self._translation(candidate, channel, hosted, model)
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
        return UpstreamPlan(request, dialect, translated, hosting, chain, candidate.step)

    async def _translation(
        self, candidate: Candidate, channel: ChannelSpec, hosted: Hosted | None, model: ModelSpec
    ) -> tuple[TranslatedCall, bytes]:
        """Return the translation back, and the body, for a channel. Raises InvalidRequest."""
        if self.parsed.fault is not None:  # an upstream of the client's dialect would judge it
            raise self.parsed.fault
        translated, written = await self.run_job(
            translated_body,
            translation_between(
                self.protocol, candidate.protocol, runs_tools=bool(self.parsed.builtin_tools)
            ),
            self._translation_options(candidate, channel, hosted, model),
            [name for name, _ in self.own_headers],
            hosted,
            values_max=TRANSLATED_VALUES_MAX,
        )
        assert written is not None
        return translated, written

    def _translation_options(
        self, candidate: Candidate, channel: ChannelSpec, hosted: Hosted | None, model: ModelSpec
    ) -> dict[str, Any]:
        """Return the facts of the channel and model that the request's translation needs."""
        dialect = CHAT_DIALECTS[candidate.protocol]
        maximum = self.parsed.max_tokens or model.max_output_tokens
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
        if dialect.marks_cache and is_plain and model.price.cached_input is not None:
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
        if self.is_strict and (lost := translated.report.lost):
            warning = translated.report.warning()
            raise GatewayError(
                INVALID_REQUEST,
                f"The channel of this model speaks another protocol, which cannot say: {warning}.",
                param=lost[0],
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
    chain: Chain | None = None  # of a chain, the models that may serve it
    cheaper: str = "or send a smaller max_tokens."
