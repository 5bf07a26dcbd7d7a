"""What a channel is sent for a chat call, and how its response will be read: one plan an attempt.

A channel that speaks the client's protocol gets the client's bytes, but for what the gateway has to
change; any other gets their translation (`channels/translation`), whose way back stays in the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from actors.router import Candidate
from channels.dialects.dialect import ChatDialect, ParsedChatRequest
from channels.dialects.hosting import Hosted, Hosting, hosting_for
from channels.dialects.table import CHAT_DIALECTS
from channels.errors import InvalidRequest
from channels.http.interfaces import UpstreamRequest
from channels.offload.jobs import translated_body
from channels.offload.pool import OffloadPool
from channels.offload.weight import TRANSLATED_VALUES_MAX
from channels.registry import PLAIN, ChannelSpec, ModelSpec
from channels.translation.paths import translation_between
from channels.translation.session import TranslatedCall
from gw.calls.charge import OUTPUT_TOKENS_DEFAULT_MAX
from gw.calls.request import ClientRequest
from gw.errors.table import INVALID_REQUEST, GatewayError, invalid_request


class UpstreamPlan(Struct, frozen=True):
    """The request to one channel, the dialect of its response, and the way back if translated.

    `hosting` says how the response is read where the dialect is hosted elsewhere.
    """

    request: UpstreamRequest
    dialect: ChatDialect
    translated: TranslatedCall | None = None
    hosting: Hosting | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """What the client is told of a translation (spec: Translation paths)."""
        if self.translated is None:
            return {}
        headers = {}
        if header := self.translated.translation.header:
            headers["X-Protocol-Translation"] = header
        warning = self.translated.report.warning()
        if warning is not None:
            headers["X-Protocol-Warning"] = warning
        return headers


class ConversationRequest(ClientRequest):
    """A checked request of a chat protocol.

    `own` are values for its dialect's own headers; these and `own_headers` go to channels of the
    client's own protocol only. `is_strict`: the client asks that nothing be dropped for it
    (`X-Protocol-Strict: 1`). `redact` makes an upstream's message fit for a client.
    """

    def __init__(
        self,
        parsed: ParsedChatRequest,
        *,
        protocol: str,
        model: ModelSpec,
        body: bytes,
        weight: int,
        offload: OffloadPool,
        redact: Callable[[str], str],
        path: Mapping[str, Any] | None = None,
        own: Mapping[str, str] | None = None,
        own_headers: tuple[tuple[str, str], ...] = (),
        is_strict: bool = False,
    ) -> None:
        super().__init__(
            parsed, protocol=protocol, body=body, weight=weight, offload=offload, path=path
        )
        self._chat = parsed
        self._model = model
        self._redact = redact
        self._own = own or {}
        self._own_headers = own_headers
        self._is_strict = is_strict

    async def plan_for(self, candidate: Candidate, channel: ChannelSpec) -> UpstreamPlan:
        """What this channel is sent. Raises GatewayError for what cannot be said to it."""
        dialect = CHAT_DIALECTS[candidate.protocol]
        is_own = candidate.protocol == self.protocol
        own_headers = self._own_headers if is_own else ()
        address, hosting, hosted = dialect.address, None, None
        if dialect.hostings and (wire := channel.wire.get(candidate.protocol, PLAIN)) != PLAIN:
            wire, hosting = hosting_for(dialect.hostings, wire, candidate.upstream_model)
            hosted = Hosted(wire, own_headers)
            address, own_headers = hosting.address, hosting.headers(own_headers)
        try:
            if hosting is not None and hosting.rewrite is not None and self._chat.fault is not None:
                raise self._chat.fault  # which an upstream of the dialect's own form would judge
            if is_own:
                body = await self.passthrough_body(
                    dialect.options(candidate.upstream_model, channel, self._model), hosted
                )
                translated = None
            else:
                translated, body = await self._translation(candidate, channel, hosted)
                self._refuse_losses(translated)
        except InvalidRequest as invalid:
            raise invalid_request(invalid) from None
        except RecursionError:
            # Read once already, but with fewer calls on the stack.
            raise GatewayError(
                INVALID_REQUEST, "The request body is nested too deeply to be translated."
            ) from None
        request = address.request(
            channel,
            body,
            protocol=candidate.protocol,
            upstream_model=candidate.upstream_model,
            stream=self._chat.stream,
            own=self._own if is_own else {},
            extra_headers=own_headers,
        )
        return UpstreamPlan(request, dialect, translated, hosting)

    async def _translation(
        self, candidate: Candidate, channel: ChannelSpec, hosted: Hosted | None
    ) -> tuple[TranslatedCall, bytes]:
        """The way back, and the body for a channel of another protocol. Raises InvalidRequest."""
        if self._chat.fault is not None:  # which an upstream of the client's own would judge
            raise self._chat.fault
        made, written = await self.done(
            translated_body,
            self.protocol,
            candidate.protocol,
            self._translation_options(candidate, channel),
            [name for name, _ in self._own_headers],
            hosted,
            values_max=TRANSLATED_VALUES_MAX,
        )
        assert written is not None
        translation = translation_between(self.protocol, candidate.protocol)
        translated = TranslatedCall.resumed(
            translation, names=made.names, report=made.report, redact=self._redact
        )
        return translated, written

    def _translation_options(self, candidate: Candidate, channel: ChannelSpec) -> dict[str, Any]:
        """What the translation of a request has to know of the channel."""
        dialect = CHAT_DIALECTS[candidate.protocol]
        maximum = self._chat.max_tokens or self._model.max_output_tokens
        if maximum is None and dialect.needs_max_tokens:
            maximum = OUTPUT_TOKENS_DEFAULT_MAX
        options: dict[str, Any] = {
            "model": candidate.upstream_model,
            "stream": self._chat.stream,
            "max_tokens": maximum,
        }
        if dialect.takes_max_tokens_param and channel.max_tokens_param is not None:
            options["max_tokens_param"] = channel.max_tokens_param
        return options

    def _refuse_losses(self, translated: TranslatedCall) -> None:
        """A client may ask that nothing be dropped for it. Raises GatewayError."""
        warning = translated.report.warning()
        if warning is not None and self._is_strict:
            raise GatewayError(
                INVALID_REQUEST,
                f"The channel of this model speaks another protocol, which cannot say: {warning}.",
                param=translated.report.dropped[0],
            )
