"""What endpoints share: models, bodies, heavy submissions, films, clients that leave."""

import asyncio
import json
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.conversation import METADATA_BYTES_MAX, session_of
from channels.dialects import transcriptions
from channels.families import VIDEOS
from channels.json.json_object import JsonObject
from channels.json.weight import COUNTED_BYTES_MAX, READ_VALUES_MAX
from channels.registry import Registry
from gw.api.application import GatewayApplication
from gw.api.chat.conversation import number_of
from gw.api.handler import ApiHandler
from gw.api.keyed_handler import DetachableWriter, detached
from gw.api.model_call import ModelCall, permitted_model
from gw.calls.detached import DetachedTasks
from gw.errors import NO_CHANNEL_AVAILABLE, GatewayError
from gw.http.drain import RequestsInFlight
from gw.media import fields
from loadtests.rig.response import Response
from tests.support.aio import eventually
from tests.support.forms import TYPE, form, part
from tests.support.rows import cases, each
from tests.support.specs import make_channel, make_model
from tests.unit.api.fakes import KEY, FakeConfig, World, make_principal
from tests.unit.api.handlers import billed
from tests.unit.http.client import request, served

REGISTRY = Registry.of(
    [make_channel("a")],
    [
        make_model("a", id="gpt", aliases=("gpt-latest",)),
        make_model("a", id="planned", callable=False),
    ],
)


def refusal(model_id: str, allowed: frozenset[str] | None = None) -> GatewayError:
    with pytest.raises(GatewayError) as raised:
        permitted_model(
            REGISTRY.resolve(model_id), model_id, make_principal(allowed_models=allowed)
        )
    return raised.value


@cases("name", "gpt", "gpt-latest")
@cases("allowed", None, frozenset({"gpt"}), frozenset({"gpt", "other"}))
def test_model_is_found_by_id_and_alias(name: str, allowed: frozenset[str] | None) -> None:
    principal = make_principal(allowed_models=allowed)
    assert permitted_model(REGISTRY.resolve(name), name, principal).id == "gpt"


@cases("name", "", "GPT", " gpt", "gpt ", "planned", "x" * 5000)
def test_other_names_and_placeholders_are_not_found(name: str) -> None:
    error = refusal(name)
    assert (error.http_status, error.kind.code, error.param) == (400, "model_not_found", "model")
    assert len(error.message) < 300


@cases("allowed", frozenset(), frozenset({"planned"}), frozenset({"gpt-latest"}))
def test_model_outside_the_keys_allowlist_is_refused(allowed: frozenset[str]) -> None:
    error = refusal("gpt-latest", allowed)
    assert (error.http_status, error.kind.code) == (400, "model_not_allowed")


def test_unknown_model_is_unknown_to_a_key_that_allows_nothing() -> None:
    assert refusal("nothing", frozenset()).kind.code == "model_not_found"


PATHS = (
    "/v1/audio/speech",
    "/v1/audio/voices",
    "/v1/transcripts/extract",
    "/v1/music/generations",
    "/v1/videos/avatars",
    "/v1/videos/generations",
)
FIELDS: dict[str, Any] = {"model": "m", "name": 7, "url": 7, "content": 7}


async def report_of(path: str, world: World, body: bytes, *headers: str) -> Response:
    head = request("POST", path, f"Content-Length: {len(body)}", *headers)
    try:
        async with served(world.application()) as address:
            return await address.request(head, body)
    finally:
        world.services.offload.close()


@pytest.mark.parametrize("path", PATHS)
async def test_large_body_is_read_elsewhere_and_refused_as_a_small_one(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = await report_of(path, World(), json.dumps(FIELDS).encode())
    here: list[object] = []

    def seen(*arguments: Any, **named: Any) -> Any:
        here.append(arguments)
        raise AssertionError("it is read here")

    monkeypatch.setattr("gw.idempotency.claim.hashlib.sha256", seen)
    monkeypatch.setattr(fields, "read_members", seen)
    body = json.dumps(FIELDS | {"junk": [0] * (READ_VALUES_MAX + 1)}).encode()
    large = await report_of(path, World(), body, "Idempotency-Key: k")
    assert here == []
    assert (large.status, large.code) == (small.status, small.code)
    assert large.json == small.json
    assert large.status < 500


async def test_large_form_is_read_elsewhere_and_refused_as_a_small_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(size: int) -> bytes:
        return form(part("file", b"1" * size, "a.wav"), part("model", b"m"), part("stream", b"x"))

    typed = f"Content-Type: {TYPE}"
    path = "/v1/audio/transcriptions"
    small = await report_of(path, World(), read(1), typed)
    seen: list[object] = []
    monkeypatch.setattr(transcriptions, "read_form", lambda *read: seen.append(read))
    world = World(config=FakeConfig(max_body_bytes=2 * COUNTED_BYTES_MAX))
    large = await report_of(path, world, read(COUNTED_BYTES_MAX), typed)
    assert seen == []
    assert (large.status, large.json) == (small.status, small.json)
    assert (large.status, large.json["error"]["param"]) == (400, "stream")


BODY = b" " * 200_000


class PatientHandler(ApiHandler):
    """Its work goes on without its client, and ends when it may, well or not."""

    may_end: ClassVar[asyncio.Event]
    error: ClassVar[Exception | None]
    left: ClassVar[RequestsInFlight]  # work whose client has left

    async def on_post(self) -> None:
        work = DetachedTasks(self.left)

        async def use_case(writer: DetachableWriter) -> None:
            await work.run(self._work(), writer)
            writer.begin("application/json", {})
            writer.send(b"{}")

        await detached(ModelCall(self), None, use_case)

    async def _work(self) -> None:
        await type(self).may_end.wait()
        if self.error is not None:
            raise self.error


@cases("error", None, GatewayError(NO_CHANNEL_AVAILABLE, "Not now."))
@cases("leaves", True, False)
async def test_admission_and_body_are_held_until_the_call_has_ended(
    error: Exception | None, leaves: bool
) -> None:
    world = World()
    world.keys.known[KEY] = make_principal(concurrency_limit=1)
    PatientHandler.may_end, PatientHandler.error = asyncio.Event(), error
    PatientHandler.left = RequestsInFlight()
    rows = [billed("/patient", PatientHandler, family=VIDEOS)]
    application = GatewayApplication(rows, services=world.services)
    bodies, limits = world.services.bodies, world.limits

    def holds() -> tuple[bool, int]:
        return bodies.used_bytes >= len(BODY), limits.in_flight("acct_1")

    async with served(application) as address, address.client() as client:
        head = request("POST", "/patient", f"Content-Length: {len(BODY)}")
        await client.send(head.replace("\n", "\r\n").encode() + BODY)
        await eventually(lambda: holds() == (True, 1))
        if leaves:
            client.leave()
            await eventually(lambda: len(PatientHandler.left) == 1)
        assert holds() == (True, 1)
        PatientHandler.may_end.set()
        if not leaves:
            assert (await client.response()).status == (200 if error is None else 503)
        await eventually(lambda: (bodies.used_bytes, limits.in_flight("acct_1")) == (0, 0))
        assert len(world.refusals) == (error is not None)


NAMED: dict[str, tuple[Any, str | None]] = {
    "session": ({"session_id": "s-1", "conversation_id": "c-1"}, "s-1"),
    "conversation": ({"conversation_id": "c-1"}, "c-1"),
    "neither": ({"user_id": "u"}, None),
    "no text": ({"session_id": 7}, None),
    "no object": (["session_id"], None),
    "nothing": (None, None),
    "too long to look into": ({"session_id": "s", "x": "y" * METADATA_BYTES_MAX}, None),
}


@each("metadata, expected", NAMED.values())
def test_conversation_is_what_the_client_calls_it(metadata: Any, expected: str | None) -> None:
    body = json.dumps({"metadata": metadata}).encode()
    assert session_of(JsonObject.parse(body).raw) == expected
    assert session_of(JsonObject.parse(b"{}").raw) is None


@given(st.text())
def test_any_text_is_read_as_a_number_or_left(text: str) -> None:
    number = number_of(text)
    assert number is None or number == float(text)


def test_what_is_no_number_of_a_span_is_left_out() -> None:
    assert [number_of(text) for text in ("0.5", "1", "nan", "inf", "warm", "", None)] == [
        0.5,
        1.0,
        None,
        None,
        None,
        None,
        None,
    ]
