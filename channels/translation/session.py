"""One translated attempt: the request to the upstream, and the response back, whole or streamed.

It combines two codecs, restores tool names that the upstream's protocol required to be changed, and
redacts an upstream's failure messages for the client. No I/O; the dialect's meter meters the
upstream's response separately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from channels.dialects.hosting import Hosted
from channels.dialects.table import CHAT_DIALECTS, DIALECTS
from channels.errors import UpstreamMalformed
from channels.json.lenient import dumps
from channels.json.value import value_in
from channels.json.written import Written
from channels.translation.codec import Codec, Metered, ResponseDecoder, ResponseEncoder
from channels.translation.events import Began, CallBegan, Event, StreamFailed, TextDelta, TextRun
from channels.translation.identifiers import ClientsOwn, called_ids, user_fitted
from channels.translation.inner_values import VALUES_MAX, check_inner_values
from channels.translation.losses import LossReport
from channels.translation.model import Request
from channels.translation.paths import Translation

_UNNAMED = Began(None, None)
_TOO_DEEP = "something that is nested too deeply"


_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def request_of(body: bytes, *, keeps_tools: bool = False) -> dict[str, object]:
    """Decode a checked body for translation, `tools` perhaps as JSON text.

    Raises InvalidRequest for a number out of range.
    """
    if not keeps_tools or b'"tools"' not in body:
        return cast(dict[str, object], value_in(body))
    return {
        name: stated if name == "tools" else value_in(stated)
        for name, stated in _members(body).items()
    }


def read_request(body: bytes, protocol: str) -> Request:
    """Return the canonical request of a client's checked body. Raises InvalidRequest."""
    own = codec(protocol)
    read = None if own.read_plain is None else own.read_plain(body)
    if read is None:
        read = own.decode_request(request_of(body, keeps_tools=own.keeps_tools))
    return read


class TranslatedCall:
    """A request in translation on one path, canonical or as a body. Made for one attempt.

    `report` is complete after `upstream_body`. Raises InvalidRequest for a body that violates the
    client's protocol. What `translated_body` returns has no `request` any more, and may come from a
    helper process.
    """

    __slots__ = ("called", "names", "report", "request", "translation")

    def __init__(self, translation: Translation, body: Mapping[str, object] | Request) -> None:
        self.translation = translation
        self.report = LossReport()
        if not isinstance(body, Request):
            body = codec(translation.client).decode_request(body)
        self.request: Request = user_fitted(body, self.report)
        self.names: Mapping[str, str] = codec(translation.upstream).tool_names(self.request)
        self.called = called_ids(self.request)

    def upstream_body(
        self, *, model: str, stream: bool, max_tokens: int | None, **options: Any
    ) -> Written:
        """Return the body for the upstream. `options` are its codec's, e.g. `max_tokens_param`.

        `max_tokens` is None if neither client nor model has a maximum; only messages requires one.
        """
        return codec(self.translation.upstream).encode_request(
            self.request,
            model=model,
            stream=stream,
            max_tokens=max_tokens,
            report=self.report,
            **options,
        )

    def translate_response(
        self, read: Any, meter: Metered, *, id: str, created: int, model: str
    ) -> bytes:
        """Translate a whole response, as `translated_response`."""
        way = self.translation
        return translated_response(
            read,
            meter,
            way.upstream,
            way.client,
            ClientsOwn(self.names, self.called),
            id=id,
            created=created,
            model=model,
        )

    def stream(
        self,
        meter: Metered,
        *,
        id: str,
        created: int,
        model: str,
        include_usage: bool,
        redact: Callable[[str], str],
    ) -> TranslatedStream:
        """Make the translation of a streamed response; `id` and `model` are its defaults.

        `meter` takes each event before it is translated. `redact` makes an upstream's message fit
        for a client (`channels/redaction.py`). Nothing is kept of the request except the names of
        its tools and the ids of its calls.
        """
        translation = self.translation
        dialect, new_encoder = (
            CHAT_DIALECTS[translation.client],
            codec(translation.client).new_encoder,
        )
        upstream = codec(translation.upstream)

        def encoder(began: Began) -> ResponseEncoder:
            return new_encoder(
                id=began.id or id,
                created=created,
                model=began.model or model,
                include_usage=include_usage,
            )

        decoder, pass_texts = upstream.new_decoder(meter), upstream.pass_texts
        return TranslatedStream(
            decoder,
            encoder,
            own=ClientsOwn(self.names, self.called),
            redact=redact,
            text_run=upstream.text_run,
            pass_texts=None if pass_texts is None else partial(pass_texts, decoder),
            closing=dialect.closing_failure if translation.closes_failures else None,
        )


class TranslatedStream:
    """A streamed response in translation: the upstream's events in, the client's bytes out.

    `failed` is the error reported by the upstream within the stream, redacted; it was encoded
    unless no bytes preceded it, in which case the caller may still send another response.
    `text_run` is the upstream's codec's.
    """

    __slots__ = (
        "_closing",
        "_decoder",
        "_encoder",
        "_encoder_of",
        "_is_closed",
        "_own",
        "_pass_texts",
        "_redact",
        "failed",
        "has_written",
        "text_run",
    )

    def __init__(
        self,
        decoder: ResponseDecoder,
        encoder_of: Callable[[Began], ResponseEncoder],
        *,
        own: ClientsOwn,
        redact: Callable[[str], str],
        text_run: Callable[[bytes], TextRun | None] | None = None,
        pass_texts: Callable[[int], None] | None = None,
        closing: Callable[[str], bytes] | None = None,
    ) -> None:
        self._closing = closing
        self._is_closed = False
        self._decoder = decoder
        self._encoder_of = encoder_of
        self._encoder: ResponseEncoder | None = None  # made for the first event
        self._own = own
        self._redact = redact
        self.failed: StreamFailed | None = None
        self.has_written = False
        self.text_run = text_run
        self._pass_texts = pass_texts

    def take_event(self, read: object) -> bytes:
        """Return the client's bytes for one decoded event of the upstream; often none.

        `read` is the result of the meter of the upstream's dialect. Never raises.
        """
        try:
            events = self._decoder.take_event(read)
            if len(events) == 1:
                event = events[0]
                # Most events are text, in which nothing is renamed or redacted.
                if type(event) is TextDelta and self._encoder is not None:
                    written = self._encoder.encode_event(event)
                    self.has_written = self.has_written or bool(written)
                    return written
                return self._write(event)
            return b"".join([self._write(one) for one in events])
        except RecursionError:
            return self._write(StreamFailed(None, f"The upstream sent {_TOO_DEEP}."))

    def take_texts(self, texts: Sequence[bytes]) -> tuple[bytes, int] | None:
        """Return the client's bytes for texts of a run, and the number of characters.

        The same as of each event by itself, without decoding any. None, and nothing happens, if
        they have to be taken one by one, as before the first bytes.
        """
        encoder = self._encoder
        if encoder is None or not self.has_written or self.failed:
            return None
        apart = b" ".join(texts)  # so that no character is whole that is cut in two
        try:
            characters = len(apart.decode()) - len(texts) + 1
        except UnicodeDecodeError:
            return None
        if b"\\" in apart:  # of each escape the first character; a second backslash is another one
            characters -= apart.count(b"\\") - apart.count(b"\\\\")
        written = encoder.encode_texts(texts, characters)
        if written is None:
            return None
        if self._pass_texts is not None:
            self._pass_texts(characters)
        return written, characters

    def end_stream(self) -> bytes:
        """Return the client's bytes at the end of the upstream's stream; none if it was cut."""
        return b"".join([self._write(one) for one in self._decoder.end_stream()])

    def broken(self, message: str) -> bytes:
        """Return the client's bytes for an interrupted stream; none if it just ends.

        An error stated by the upstream itself is encoded, otherwise `message` if the path closes
        its failures.
        """
        failed = [event for event in self._decoder.end_stream() if isinstance(event, StreamFailed)]
        written = b"".join([self._write(event) for event in failed])
        if written or self._closing is None:
            return written
        return self._close(self._closing, message)

    def _close(self, closing: Callable[[str], bytes], message: str) -> bytes:
        if self._is_closed:
            return b""
        self._is_closed = True
        return closing(message)

    def _write(self, event: Event) -> bytes:
        if type(event) is CallBegan:
            event = self._own.call(event)
        elif isinstance(event, StreamFailed):
            event = replace(event, message=self._redact(event.message))
            self.failed = event
            if not self.has_written:
                return b""
            if self._closing is not None:
                return self._close(self._closing, event.message)
        written = self._encode(event)
        if written:
            self.has_written = True
        return written

    def _encode(self, event: Event) -> bytes:
        if self._encoder is None:
            began = event if isinstance(event, Began) else _UNNAMED
            self._encoder = self._encoder_of(began)
        return self._encoder.encode_event(event)


def translated_response(
    read: Any,
    meter: Metered,
    upstream: str,
    client: str,
    own: ClientsOwn,
    *,
    id: str,
    created: int,
    model: str,
) -> bytes:
    """Translate a whole response to the client's protocol. Raises UpstreamMalformed.

    `read` is what the meter of the upstream's dialect has read.
    """
    try:
        events = own.events(codec(upstream).new_decoder(meter).take_body(read))
        encoder = codec(client).new_body_encoder(
            id=id, created=created, model=model, include_usage=True
        )
        return b"".join([encoder.encode_event(event) for event in events])
    except RecursionError:
        raise UpstreamMalformed(_TOO_DEEP) from None


def codec(protocol: str) -> Codec:
    """Return the codec of a protocol that is translated, in either direction."""
    found = CHAT_DIALECTS[protocol].codec
    assert found is not None, protocol
    return found


# Changed tool names that are restored in the response; a history may have many.
NAMES_MAX = 10_000


def translated_body(
    body: bytes,
    translation: Translation,
    options: Mapping[str, Any],
    dropped: Sequence[str],
    hosted: Hosted | None = None,
    *,
    is_here: bool = False,
) -> tuple[TranslatedCall, bytes]:
    """Return the call with the body for another protocol; `dropped` are further losses.

    Raises InvalidRequest.

    `is_here`: on the event loop; raises TakesLong for a request that must not be translated there.
    RecursionError is handled by the caller that reports it to the client.
    """
    upstream = translation.upstream
    if is_here and CHAT_DIALECTS[upstream].takes_is_here:
        options = {**options, "is_here": True}
    call = TranslatedCall(translation, read_request(body, translation.client))
    if len(body) > VALUES_MAX:  # a text has at least as many bytes as values
        check_inner_values(call.request)
    written = dumps(call.upstream_body(**options))
    for name in dropped:
        call.report.drop(name)
    del call.request  # it may be megabytes, and what is left is kept as long as the response
    if len(call.names) > NAMES_MAX:
        call.names = dict(list(call.names.items())[:NAMES_MAX])
    call.report = call.report.shortened()
    if hosted is not None:
        written = DIALECTS[upstream].hostings[hosted.wire].body(written, hosted.headers)
    return call, written
