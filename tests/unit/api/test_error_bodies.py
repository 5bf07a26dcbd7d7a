"""How bodies of errors are written, whatever stands in the message."""

import json

import pytest

from channels.family import ErrorShape
from gw import errors as errors
from gw.error_bodies import dumps, render
from gw.errors import INVALID_REQUEST, GatewayError
from gw.upstream_errors import from_upstream
from tests.support.rows import cases, each


def message_of(body: bytes) -> str:
    return str(json.loads(body)["error"]["message"])


@cases(
    "message",
    "",
    "plain",
    'quotes " and \\',
    "slash / path",
    "tab\tnewline\n",
    "nul\x00",
    "æøå 漢字 😀",
)
def test_a_message_comes_back_as_it_was(message: str) -> None:
    assert message_of(render(ErrorShape.CHAT, GatewayError(INVALID_REQUEST, message))) == message


@each("shape", list(ErrorShape))
def test_no_message_repeats_a_key_that_a_client_has_misplaced(shape: ErrorShape) -> None:
    key = "sk-platform-" + "0123456789abcdef" * 4
    for kind in (errors.INVALID_API_KEY, errors.MODEL_NOT_FOUND, from_upstream(401, "").kind):
        for sent in (key, key[:60]):
            shown = message_of(render(shape, GatewayError(kind, f"No `{sent}` here.")))
            assert shown == "No `sk-platform-0123***` here."


def test_what_json_does_not_have_is_replaced_or_refused() -> None:
    assert dumps({"path": "/v1/é"}) == '{"path":"/v1/é"}'.encode()
    body = render(ErrorShape.CHAT, GatewayError(INVALID_REQUEST, "model 'x\ud800y' is not known"))
    assert message_of(body) == "model 'x?y' is not known"
    with pytest.raises(OverflowError):
        dumps({"x": float("nan")})


@cases("shape", ErrorShape.MESSAGES, ErrorShape.GEMINI)
def test_details_are_shown_where_libraries_look_for_them(shape: ErrorShape) -> None:
    details = {"error_code": "some_code", "unsupported": ["tools"]}
    error = GatewayError(INVALID_REQUEST, "No.", details=details)
    assert json.loads(render(shape, error))["error"]["details"] == details
    plain = GatewayError(INVALID_REQUEST, "No.")
    assert "details" not in json.loads(render(shape, plain))["error"]
    for other in (ErrorShape.CHAT, ErrorShape.IMAGES):
        assert "details" not in json.loads(render(other, error))["error"]


def test_only_the_images_shape_has_a_param() -> None:
    error = GatewayError(INVALID_REQUEST, "Too many.")
    assert "param" not in json.loads(render(ErrorShape.CHAT, error))["error"]
    assert json.loads(render(ErrorShape.IMAGES, error))["error"]["param"] is None
