"""Files that are read through a process at once are bounded, in all and by link."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from actors.media_store.copies import Kept
from channels.redaction import Redactor
from channels.shares import OWNER
from gw.api.link_readers import FILMS_MAX, LINK_READERS_MAX, LinkReaders
from gw.api.services import Services
from gw.app import make_application
from gw.errors import GatewayError
from gw.knowledge.sources import Sources
from tests.support.aio import eventually
from tests.support.rows import cases
from tests.unit.api.fakes import World
from tests.unit.http.client import Address, request, served


def refused(readers: LinkReaders, link: str, account_id: str = "acct_1") -> bool:
    try:
        with readers.reading(link, account_id):
            return False
    except GatewayError as error:
        return error.http_status == 503 and error.headers["Retry-After"] == "1"


def test_one_film_too_many_is_refused_until_another_has_ended() -> None:
    readers = LinkReaders(2)
    with readers.reading("a", "acct_1"):
        with readers.reading("b", "acct_2"):
            assert refused(readers, "c", "acct_3")
        assert not refused(readers, "c", "acct_3")


def test_one_link_or_account_leaves_room_for_others() -> None:
    readers = LinkReaders(FILMS_MAX)
    with ExitStack() as stack:
        for _ in range(LINK_READERS_MAX):
            stack.enter_context(readers.reading("film", "acct_1"))
        assert refused(readers, "film", "acct_1")
        for number in range(FILMS_MAX // 4 - LINK_READERS_MAX):
            stack.enter_context(readers.reading(str(number), "acct_1"))
        assert refused(readers, "another", "acct_1")
        assert not refused(readers, "theirs", "acct_2")
    assert not refused(readers, "film", "acct_1")


FILE_BYTES = 10**10  # more than any buffer
NAMES = "abcz"
PATHS = (
    "/v1/videos/generations/vid_{}/content",
    "/v1/media/{}",
    "/api/v1/ext/wiki/sources/kb/{account}/{}",
)
SIGNED = "?expires=4000000000&signature=good"


class Film:
    """An upstream's film without an end; also a copy of one."""

    status = 200

    def header(self, name: str) -> None:
        """None is passed on."""

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536

    def pieces(self, start: int, end: int) -> AsyncIterator[bytes]:
        return self.chunks()


class Upstream(Film):
    def close(self) -> None:
        """Nothing is open."""


class Copy(Film):
    async def close(self) -> None:
        """Nothing is open."""


def account_of(name: str) -> str:
    """Every file is of the first account but the last one."""
    return "acct_2" if "z" in name else "acct_1"


class Store:
    """Every link is good, every film and copy there. `owners` are those its reads count for."""

    def __init__(self) -> None:
        self.owners: set[str] = set()

    def is_good(self, *link: str, now: float) -> bool:
        return True

    def is_good_link(self, *link: str) -> bool:
        return True

    async def read_linked(self, task_id: str) -> Any:
        self.owners.add(OWNER.get())
        return SimpleNamespace(id=task_id, account_id=account_of(task_id), state="succeeded")

    async def open(self, job: Any, headers: Any) -> Upstream:
        return Upstream()

    async def served(self, name: str) -> tuple[Kept, Copy]:
        self.owners.add(OWNER.get())
        kept = Kept(
            id=name,
            job_id="vid",
            account_id=account_of(name),
            position=0,
            content_type="video/mp4",
            size=FILE_BYTES,
            kept_at=0.0,
        )
        return kept, Copy()


def with_files(world: World, folder: Path, *, limit: int = FILMS_MAX) -> Services:
    """Services in which every signed link leads to a file that takes long to read."""
    for name in NAMES:
        file = folder / "kb" / account_of(name) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.truncate(file, FILE_BYTES)
    store = Store()
    cast(Any, world).redactor = Redactor([])
    cast(Any, world.metrics).knowledge = SimpleNamespace(link_followed=lambda result: None)
    films = SimpleNamespace(
        films=LinkReaders(limit), content_links=store, jobs=store, content=store
    )
    wiki = SimpleNamespace(
        links=SimpleNamespace(is_genuine=lambda *link: True), sources=Sources(folder)
    )
    return replace(
        world.services,
        media=cast(Any, films),
        copies=LinkReaders(limit),
        sources=LinkReaders(limit),
        media_store=cast(Any, store),
        wiki=cast(Any, wiki),
    )


async def status(address: Address, head: str, stack: AsyncExitStack) -> int:
    """The status of a file that is being read slowly from here on."""
    client = await stack.enter_async_context(address.client())
    await client.send_head(head)
    line = await client.reader.readline()
    return int(line.split()[1])


def head_of(path: str, name: str) -> str:
    target = path.format(name, account=account_of(name))
    return request("GET", target + SIGNED, key=None)


@cases("path", *PATHS)
async def test_one_link_has_so_many_readers_at_each_handler(path: str, tmp_path: Path) -> None:
    """They read slowly, and none of them has a key; another link is read meanwhile."""
    application = make_application(with_files(World(), tmp_path))
    mine, other = (head_of(path, name) for name in "ab")

    async with served(application) as address:
        async with AsyncExitStack() as stack:
            readers = [await status(address, mine, stack) for _ in range(LINK_READERS_MAX)]
            assert readers == [200] * LINK_READERS_MAX
            refused = await address.request(mine)
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert await status(address, other, stack) == 200

        async def is_read_again() -> bool:
            async with AsyncExitStack() as stack:
                return await status(address, mine, stack) == 200

        await eventually(is_read_again, what="a reader less")


@cases("path", *PATHS)
async def test_one_account_leaves_room_for_others_at_each_handler(
    path: str, tmp_path: Path
) -> None:
    """An account's slow readers, each of another link, have a part; its database reads too."""
    services = with_files(World(), tmp_path, limit=8)
    async with served(make_application(services)) as address, AsyncExitStack() as stack:
        statuses = [await status(address, head_of(path, name), stack) for name in NAMES]
    assert statuses == [200, 200, 503, 200]
    assert "" not in cast(Any, services.media_store).owners
