"""`POST /v1/images/generations` on real processes, by the official library and by plain HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from tests.support.client import NANO_PER_USD
from tests.support.house import House, channel, model, shared_house
from tests.support.postgres import PostgresForTests

PRICE = 40_000_000  # nano-USD of one image of `picture`


def picture(model_id: str, *channels: Any, **more: Any) -> dict[str, Any]:
    """A model that makes images at 0.04 USD each."""
    return model(
        model_id,
        *channels,
        **{
            "endpoint_type": "images_generations",
            "price": {"per_image": "0.04"},
            "max_output_tokens": None,
            **more,
        },
    )


AREA_PRICE = {
    "per_image": "0.04",
    "per_image_large": "0.08",
    "area_threshold_mp": "2.36",
    "per_reference": "0.005",
}


@pytest.fixture(scope="module")
def built(postgres: PostgresForTests) -> Iterator[House]:
    channels = [
        channel(name, priority=place, protocols=["images", "chat"])
        for place, name in enumerate(("one", "two", "three"), start=1)
    ]
    models = [
        model("sim-model", "one"),
        picture("picture", {"id": "one", "as": "vendor/picture"}, "two", "three"),
        picture("picture-area", "one", price=AREA_PRICE, aliases=["picture-old"]),
        picture("picture-off", "one", multiplier="0.3"),
        picture("picture-soon", "one", callable=False),
        picture("picture-nowhere"),
    ]
    with shared_house(postgres, channels=channels, models=models) as h:
        yield h


@pytest.fixture(autouse=True)
def calm(built: House) -> None:
    built.upstream.reset()


def sdk(built: House, key: str) -> OpenAI:
    return OpenAI(base_url=f"{built.gateway.url}/v1", api_key=key, max_retries=0)


def test_library_gets_its_images_and_pays_for_each(built: House) -> None:
    who = built.tenant()
    answer = sdk(built, who.key).images.with_raw_response.generate(
        model="picture", prompt="a boat", n=3, size="1024x1024"
    )
    made = answer.parse()
    assert made.data is not None
    assert len({image.url for image in made.data}) == 3
    row = built.row(answer.headers["x-gateway-trace"])
    assert (row["status"], row["model"], row["protocol"]) == ("success", "picture", "images")
    assert (row["unit_count"], row["unit_type"]) == (3, "image")
    assert row["cost_nano_usd"] == 3 * PRICE
    assert row["result_urls"] == [image.url for image in made.data]
    assert built.balance_nano_usd(who) == NANO_PER_USD - 3 * PRICE
