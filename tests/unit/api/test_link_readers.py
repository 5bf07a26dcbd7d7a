"""Files that are read through a process at once are bounded, in all and by link."""

from contextlib import ExitStack

from gw.api.link_readers import FILMS_MAX, LINK_READERS_MAX, LinkReaders
from gw.errors import GatewayError


def refused(readers: LinkReaders, link: str, account_id: str = "") -> bool:
    try:
        with readers.reading(link, account_id):
            return False
    except GatewayError as error:
        return error.http_status == 503 and error.headers["Retry-After"] == "1"


def test_one_film_too_many_is_refused_until_another_has_ended() -> None:
    readers = LinkReaders(2)
    with readers.reading("a"):
        with readers.reading("b"):
            assert refused(readers, "c")
        assert not refused(readers, "c")


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
