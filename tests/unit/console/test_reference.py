"""The reference as a page: where the gateway describes itself, and nowhere else."""

import gzip
import json

from gw.app import description
from gw.console.application import routes
from gw.console.pages import STATIC
from tests.support.rows import cases
from tests.unit.config.reading import read
from tests.unit.console.fakes import OWNER, World, cookie
from tests.unit.http.client import request

PAGES = ("/reference", "/reference/openapi.json")


@cases("path", *PAGES)
async def test_it_can_be_turned_off(path: str) -> None:
    world = World(config=read("console_listen: 127.0.0.1:0\ndescribe: false"))
    async with world.served(routes()) as address:
        response = await address.request(request("GET", path, cookie(OWNER), key=None), b"")
    assert response.status == 404


async def test_its_document_is_that_of_the_public_listener() -> None:
    async with World().served(routes()) as address:
        page = await address.request(request("GET", PAGES[0], cookie(OWNER), key=None), b"")
        document = await address.request(request("GET", PAGES[1], cookie(OWNER), key=None), b"")
    assert b'<div id="reference"' in page.body
    assert json.loads(document.body) == json.loads(description().body)
    assert document.headers["content-type"] == "application/json"


async def test_what_draws_it_is_sent_compressed_and_without_pictures() -> None:
    async with World().served(routes()) as address:
        style = await address.request(request("GET", "/static/swagger.css", key=None), b"")
    assert style.headers["content-encoding"] == "gzip"
    assert style.body == STATIC["swagger.css"].body
    found = gzip.decompress(style.body)
    assert b".swagger-ui" in found
    assert b"data:" not in found
