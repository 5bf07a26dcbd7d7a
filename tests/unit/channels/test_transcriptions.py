"""What a recording costs whose upstream states its length, or does not."""

import json
from decimal import Decimal
from typing import Any

from channels.dialects.token_counts import Usage
from channels.dialects.transcriptions import is_object, read_request, read_response, text_of
from channels.prices import PriceSpec
from gw.calls.bills import Charged
from gw.calls.measured import Amount, Measured, MeasuredBill
from tests.support.forms import TYPE, form, part
from tests.support.rows import cases, each
from tests.support.specs import make_model
from tests.unit.channels.test_recording_lengths import SMALL, counted

FREE = Usage(0, 0)


def request_of(response_format: str, model: str) -> bytes:
    """The form that an upstream is sent for a recording of unknown length."""
    body = form(
        part("file", b"ID3" + bytes(100), "a.mp3"),
        part("model", b"m"),
        part("response_format", response_format.encode()),
    )
    _, written = read_request(body, TYPE).body_for(body, model)
    return b"".join(bytes(one) for one in written.pieces)


@cases(
    "response_format, model, sent",
    ("text", "whisper-1", b"verbose_json"),
    ("text", "gpt-4o-mini-transcribe", b"json"),
    ("json", "whisper-1", b"json"),
    ("srt", "whisper-1", b"srt"),
)
def test_a_plain_text_is_requested_with_its_length(
    response_format: str, model: str, sent: bytes
) -> None:
    assert b'name="response_format"\r\n\r\n' + sent + b"\r\n" in request_of(response_format, model)


@cases(
    "body, text",
    (b'{"text": "Gr\\u00fc\xc3\x9fe", "duration": 3}', "Grüße\n".encode()),
    (b'{"text": "%b"}' % (b"a word " * 10_000), b"a word " * 10_000 + b"\n"),
    (b'{"text": "half \xe4\xb8", "logprob": -Infinity}', "half \ufffd\n".encode()),
    (b"plain anyway\n", b"plain anyway\n"),
)
def test_the_client_gets_the_text(body: bytes, text: bytes) -> None:
    assert text_of(body) == text
    read_response(body, is_text=not is_object(body))


def test_head_of_a_file_lowers_no_hold() -> None:
    file = counted(1) + SMALL * 3_000
    body = form(part("file", file, "a.mp3"), part("model", b"m"))
    read = read_request(body, TYPE)
    assert read.stated_milliseconds == 27
    assert read.milliseconds_max == len(file) / 2 + 0.5  # 16 kbit/s, rounded up


def bill_of(file_bytes: int, response: dict[str, Any], stated: int | None = None) -> Charged:
    """The bill of a recording of so many bytes, whose container states this length."""

    def measured(body: bytes) -> Measured:
        read = read_response(body, is_text=False)
        least = Amount(quantity=read.spoken_milliseconds, usage=FREE)
        return Measured(quantity=read.milliseconds, least=least)

    bill = MeasuredBill(
        make_model(
            "a", endpoint_type="audio_transcriptions", price=PriceSpec(per_second=Decimal(1))
        ),
        most=Amount(quantity=file_bytes // 2, usage=FREE),
        likely=None if stated is None else Amount(quantity=stated, usage=FREE),
        reading=measured,
        units_of=lambda quantity: quantity,
        slack=10_000 + file_bytes,
    )
    bill.read(json.dumps(response).encode(), now=0.0)
    return bill.charged(first_byte_seconds=0.1)


@each("stated", [{"duration": 8_000}, {"usage": {"seconds": "8000"}}, {"duration": 8000.0}])
def test_a_stated_length_is_charged(stated: dict[str, Any]) -> None:
    made = bill_of(6_000_000, {"text": "x", **stated}, stated=1_000)
    assert (made.units, made.detail) == (8_000_000, {"units": {"milliseconds": 8_000_000}})


@cases(
    "characters, stated, charged, by",
    (120_000, None, 3_000_000, "hold"),
    (1, None, 3_000_000, "hold"),
    (1, 375_000, 375_000, "request"),
    # It is spoken for longer than the container states, and than is held for.
    (15_000, 375_000, 1_000_000, "response"),
    (120_000, 1, 3_000_000, "response"),
)
def test_a_length_that_nobody_states_is_that_of_the_file_or_the_hold(
    characters: int, stated: int | None, charged: int, by: str
) -> None:
    made = bill_of(6_000_000, {"text": "x" * characters}, stated)
    assert (made.units, made.detail["estimated_by"]) == (charged, by)
    assert made.detail["basis"] == "estimated"


@each("duration", [100_000, 10**400, "1e400", "nan", True, [8_000]])
def test_a_length_that_is_not_possible_is_not_charged(duration: Any) -> None:
    made = bill_of(6_000_000, {"text": "x" * 15_000, "duration": duration}, 375_000)
    assert made.units == 1_000_000
