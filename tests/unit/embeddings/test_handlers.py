"""The withdrawn embeddings endpoint."""

from loadtests.rig.response import Response
from tests.support.aio import run
from tests.support.rows import cases
from tests.unit.api.fakes import World
from tests.unit.http.client import request, served


def ask(world: World, body: bytes, *headers: str) -> Response:
    async def scene() -> Response:
        head = request("POST", "/v1/embeddings", f"Content-Length: {len(body)}", *headers)
        async with served(world.application()) as address:
            return await address.request(head, body)

    return run(scene())


@cases(
    "body, model",
    (b'{"model":"text-embedding-3","input":"x"}', "text-embedding-3"),
    (b'{"model":""}', None),
    (b'{"model":7}', None),
    (b"{}", None),
    (b"[]", None),
    (b"", None),
    (b"{broken", None),
    (b"\xff\xfe", None),
    (b'{"model":"\xff"}', None),
    (b'{"model":' + b"[" * 100_000, None),
)
def test_every_call_is_404_and_a_row(body: bytes, model: str | None) -> None:
    world = World()
    response = ask(world, body)
    assert (response.status, response.code) == (404, "model_not_found")
    assert response.json["error"]["type"] == "invalid_request_error"
    (refusal,) = world.refusals
    assert (refusal.model, refusal.http_status) == (model, 404)
    assert (refusal.error_code, refusal.protocol) == ("model_not_found", "embeddings")


def test_it_authenticates_first() -> None:
    response = ask(World(), b"{}", "x-api-key: nonsense")
    assert (response.status, response.code) == (401, "invalid_api_key")


def test_it_is_billed_like_any_model_call() -> None:
    world = World()
    world.money.available_nano_usd = 0
    assert ask(world, b"{}").status == 402
