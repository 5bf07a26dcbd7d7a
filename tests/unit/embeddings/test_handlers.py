"""The embeddings endpoint where no model is configured, or not the named one."""

from decimal import Decimal

from channels.prices import PriceSpec
from channels.registry import Registry
from loadtests.rig.response import Response
from tests.support.aio import run
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model
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


def test_models_that_no_channel_serves_change_nothing() -> None:
    """A catalog may list them: placeholders, and those whose channels speak something else."""
    channels = [make_channel("a"), make_channel("b", protocols=frozenset({"embeddings"}))]
    listed = {"endpoint_type": "embeddings", "price": PriceSpec(input=Decimal(1))}
    models = [
        make_model("a", id="listed", **listed),
        make_model(id="bare", **listed),
        make_model("b", id="held", callable=False, **listed),
        make_model("b", id="painter", endpoint_type="images_generations"),
    ]
    world = World(registry=Registry.of(channels, models))
    for body in (b'{"model":"listed","input":"x"}', b'{"model":"held","input":"x"}', b"{broken"):
        response = ask(world, body)
        assert (response.status, response.code) == (404, "model_not_found")
        assert "withdrawn" in response.json["error"]["message"]


def test_model_that_is_configured_leaves_every_other_one_unknown() -> None:
    channels = [make_channel("a", protocols=frozenset({"chat", "embeddings"}))]
    price = PriceSpec(input=Decimal(1))
    models = [
        make_model("a", id="vectors", endpoint_type="embeddings", price=price),
        make_model("a", id="chat"),
    ]
    world = World(registry=Registry.of(channels, models))
    for named in ("text-embedding-3", "chat"):
        response = ask(world, b'{"model":"%b","input":"x"}' % named.encode())
        assert (response.status, response.code) == (404, "model_not_found")
        assert named in response.json["error"]["message"]
    for body, param in ((b'{"model":"vectors"}', "input"), (b"{broken", "JSON")):
        response = ask(world, body)
        assert (response.status, response.code) == (400, "invalid_request")
        assert param in response.json["error"]["message"]
    assert [(one.http_status, one.model) for one in world.refusals] == [
        *((404, "text-embedding-3"), (404, "chat")),
        *((400, "vectors"), (400, None)),
    ]
