"""What the endpoints of the four chat protocols share: read, resolve, run the conversation.

A protocol's own file says how its request is read and what a channel is sent. Everything that costs
or waits is the conversation's (`gw/calls/conversation.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, cast

from msgspec import Struct

from actors.router import Candidate
from channels.dialects.address import address
from channels.dialects.dialect import DIALECTS, Asked, Dialect
from channels.errors import InvalidRequest
from channels.http.interfaces import UpstreamRequest
from channels.json.text import dumps
from channels.offload.jobs import native_body, translated_body
from channels.offload.weight import TRANSLATED_VALUES_MAX
from channels.registry import ChannelSpec, ModelSpec
from channels.translation.paths import translation_between, upstream_protocols
from channels.translation.session import TranslatedCall, request_of
from channels.translation.strip_signatures import without_foreign
from gw.api.model_call import ModelCallHandler
from gw.api.writer import HandlerWriter
from gw.calls.call import ChatCall, Framing, SseFraming
from gw.calls.conversation import Conversation
from gw.calls.estimate import OUTPUT_TOKENS_DEFAULT_MAX
from gw.calls.speech import Speech
from gw.calls.tools import lacking_tool
from gw.errors.table import INVALID_REQUEST, TOOL_NOT_SUPPORTED, GatewayError, invalid_request
from metrics import genai
from metrics.spans import Attributes
from metrics.tracing import AttributeValue, CallSpan

# A pin is hashed and never stored; this bounds what is hashed.
PIN_CHARACTERS_MAX = 512


class NativeSpeech(Struct, frozen=True):
    """How a channel is spoken to in the client's own protocol.

    `write` makes the body of the request and the `options` for a channel; `address` sends it there.
    `path` is what reading the request takes from its path.
    """

    write: Callable[..., bytes]
    options: Callable[[Candidate, ChannelSpec, ModelSpec], dict[str, Any]]
    address: Callable[[Candidate, ChannelSpec, bytes], UpstreamRequest]
    path: Mapping[str, Any] = {}


class ConversationHandler(ModelCallHandler):
    """One chat call."""

    dialect: ClassVar[Dialect]
    tools_protocol: ClassVar[str | None] = None  # what built-in tools run over, if not this one
    own_headers: tuple[tuple[str, str], ...] = ()  # which go to channels of this protocol only

    async def converse(
        self,
        request: Asked,
        native: NativeSpeech,
        *,
        forwards_usage: bool = True,
        framing: Framing | None = None,
    ) -> None:
        """Serve the call. Raises GatewayError while nothing has been sent."""
        model = self._model
        reached = upstream_protocols(self.protocol, self.services.translations())
        if request.builtin_tools:
            self._refuse_tools(request.builtin_tools, model, reached)
        call = ChatCall(
            facts=self.facts(),
            model=model,
            cap_nano_usd=self.principal.spend_cap_nano_usd,
            is_stream=request.stream,
            forwards_usage=forwards_usage,
            content_bytes=request.content_bytes,
            body_bytes=len(self.body),
            max_tokens=request.max_tokens,
            pin=self._pin(),
            span=self._span(request, model),
            speak=lambda candidate, channel: self._speak(request, native, candidate, channel),
            forget=lambda: self._forget(request),
            started=self.services.clock.monotonic(),
            tools=request.builtin_tools,
            tools_protocol=self.tools_protocol,
            framing=framing or SseFraming(),
            translations=reached,
            detail=self._detail,
        )
        conversation = cast(Conversation, self.settings["conversation"])
        await conversation.run(call, HandlerWriter(self))

    def _forget(self, request: Asked) -> None:
        self.forget_body()
        request.object.forget()

    def _refuse_tools(self, tools: Sequence[str], model: ModelSpec, reached: Sequence[str]) -> None:
        """A tool that no channel of the model has is refused before anything is held."""
        lacking = lacking_tool(
            tools,
            model,
            self.services.registry().channels,
            protocol=self.protocol,
            run_over=self.tools_protocol or self.protocol,
            reached=reached,
        )
        if lacking is not None:
            raise GatewayError(
                TOOL_NOT_SUPPORTED,
                f"The built-in tool `{lacking}` is not supported by the channels of this model.",
                param="tools",
            )

    def _speak(
        self, request: Asked, native: NativeSpeech, candidate: Candidate, channel: ChannelSpec
    ) -> Speech | Awaitable[Speech]:
        """What a channel is sent: the client's bytes, or their translation. Raises GatewayError."""
        is_native = candidate.protocol == self.protocol
        if not is_native and request.fault is not None:
            # Which an upstream of the client's protocol would judge.
            raise invalid_request(request.fault)
        if self.is_heavy or not (is_native or self.weight <= TRANSLATED_VALUES_MAX):
            return self._speak_elsewhere(request, native, candidate, channel)
        with _refusing():
            if is_native:
                body = native.write(request, **native.options(candidate, channel, self._model))
                body = without_foreign(self.protocol, body, request.object.outline)
                return Speech(native.address(candidate, channel, body), self.dialect)
            call = TranslatedCall(
                translation_between(self.protocol, candidate.protocol),
                request_of(self.body),
                redact=self.services.redact,
            )
            written = dumps(call.upstream_body(**self._translating(request, candidate, channel)))
            for name, _ in self.own_headers:
                call.report.drop(name)
            return self._translated(request, call, written, candidate, channel)

    async def _speak_elsewhere(
        self, request: Asked, native: NativeSpeech, candidate: Candidate, channel: ChannelSpec
    ) -> Speech:
        """The same for a body that would hold up the loop."""
        with _refusing():
            if candidate.protocol == self.protocol:
                options = native.options(candidate, channel, self._model)
                _, body = await self.offload(native_body, self.protocol, native.path, options)
                body = self.body if body is None else body
                return Speech(native.address(candidate, channel, body), self.dialect)
            made, written = await self.offload(
                translated_body,
                self.protocol,
                candidate.protocol,
                self._translating(request, candidate, channel),
                [name for name, _ in self.own_headers],
            )
        call = TranslatedCall.resumed(
            translation_between(self.protocol, candidate.protocol),
            names=made.names,
            report=made.report,
            redact=self.services.redact,
        )
        assert written is not None
        return self._translated(request, call, written, candidate, channel)

    def _translating(
        self, request: Asked, candidate: Candidate, channel: ChannelSpec
    ) -> dict[str, Any]:
        """What the translation of a request has to know of the channel."""
        maximum = request.max_tokens or self._model.max_output_tokens
        if maximum is None and candidate.protocol == "messages":
            maximum = OUTPUT_TOKENS_DEFAULT_MAX  # the one protocol that demands it
        options: dict[str, Any] = {
            "model": candidate.upstream_model,
            "stream": request.stream,
            "max_tokens": maximum,
        }
        # The one protocol whose upstreams differ in this name.
        if candidate.protocol == "chat" and channel.max_tokens_param is not None:
            options["max_tokens_param"] = channel.max_tokens_param
        return options

    def _translated(
        self,
        request: Asked,
        call: TranslatedCall,
        body: bytes,
        candidate: Candidate,
        channel: ChannelSpec,
    ) -> Speech:
        self._refuse_losses(call)
        upstream = address(
            candidate.protocol,
            channel,
            body,
            upstream_model=candidate.upstream_model,
            stream=request.stream,
        )
        return Speech(upstream, DIALECTS[candidate.protocol], call)

    def _refuse_losses(self, translated: TranslatedCall) -> None:
        """A client may ask that nothing be dropped for it: `X-Protocol-Strict: 1`."""
        warning = translated.report.warning()
        if warning is not None and self.request.headers.get("X-Protocol-Strict", "") == "1":
            raise GatewayError(
                INVALID_REQUEST,
                f"The channel of this model speaks another protocol, which cannot say: {warning}.",
                param=translated.report.dropped[0],
            )

    def _pin(self) -> str | None:
        """What keeps a conversation on one channel (spec: Agent API; contract §4)."""
        headers = self.request.headers
        session = headers.get("session_id") or headers.get("conversation_id")
        if not session:
            return None
        return f"{self.principal.account_id}/{session[:PIN_CHARACTERS_MAX]}"

    def _span(self, request: Asked, model: ModelSpec) -> CallSpan:
        def attributes() -> Attributes:
            told: dict[str, AttributeValue] = {
                genai.OPERATION_NAME: "chat",
                genai.PROVIDER_NAME: model.owned_by,
                genai.REQUEST_MODEL: model.id,
                genai.REQUEST_STREAM: request.stream,
                "gw.protocol": self.protocol,
                "gw.call": self.call_id.hex,
                "gw.account": self.principal.account_id,
            }
            if request.max_tokens is not None:
                told[genai.REQUEST_MAX_TOKENS] = request.max_tokens
            return told

        return self.services.tracing.start_call(
            name="gw.chat.complete",
            traceparent=self.request.headers.get("traceparent"),
            attributes=attributes,
        )


@contextmanager
def _refusing() -> Iterator[None]:
    """Make the client's error of what a request cannot be spoken for."""
    try:
        yield
    except InvalidRequest as invalid:
        raise invalid_request(invalid) from None
    except RecursionError:
        # Read once already, but with fewer calls on the stack.
        raise GatewayError(
            INVALID_REQUEST, "The request body is nested too deeply to be translated."
        ) from None
