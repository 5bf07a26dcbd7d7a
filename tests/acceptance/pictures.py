"""The channels and models that the tests of images share, and one images call."""

from collections.abc import Mapping
from typing import Any

from loadtests.rig.client import Call, Client
from loadtests.rig.deployment import channel, model
from loadtests.rig.response import Response

PATH = "/v1/images/generations"
EACH = 40_000_000  # nano-USD for an image of `picture`
AREA_PRICE = {
    "per_image": "0.04",
    "per_image_large": "0.08",
    "area_threshold_mp": "2.36",
    "per_reference": "0.005",
}


def picture(model_id: str, *channels: Any, **more: Any) -> dict[str, Any]:
    """A model that makes images at 0.04 USD each."""
    given = {"endpoint_type": "images_generations", "price": {"per_image": "0.04"}, **more}
    return model(model_id, *channels, **given)


SETTINGS: dict[str, Any] = {
    "channels": [
        *(
            channel(name, priority=place, protocols=["images", "chat", "messages"])
            for place, name in enumerate(("one", "two", "three"), start=1)
        ),
        channel("quiet", protocols=["images"]),
    ],
    "models": [
        model("sim-model", "one"),
        picture("picture", "one", "two", "three"),
        picture("renamed", {"id": "one", "as": "vendor/ünlike"}, aliases=["picture-nano"]),
        picture("area", "one", price=AREA_PRICE),
        picture("promoted", "one", multiplier="0.3"),
        picture("soon", "one", callable=False),
        picture("hanging", "quiet"),
    ],
}


def body(**members: Any) -> dict[str, Any]:
    """An ordinary request with `members` put in or replaced."""
    return {"model": "picture", "prompt": "a boat", **members}


def generate(
    client: Client, raw: bytes | None = None, headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """One images call."""
    return begin(client, raw, headers, **more).response()


def begin(
    client: Client, raw: bytes | None = None, headers: Mapping[str, str] | None = None, **more: Any
) -> Call:
    """Send one images call; its answer waits to be read."""
    return client.begin("POST", PATH, body(**more) if raw is None else raw, headers=headers)


def refusal(reply: Response) -> tuple[int, str, str, str | None]:
    """Status, type, code and param of an error in the images shape."""
    assert list(reply.json) == ["error"], reply.json
    error = reply.json["error"]
    assert list(error) == ["message", "type", "code", "param"], error
    assert error["message"]
    return reply.status, error["type"], error["code"], error["param"]
