"""Keys as checks find them: at once in the cache, or after a read."""

from collections.abc import Coroutine

from gw.keys.cache import KeyCache
from gw.keys.principal import KeyRefused, Principal
from tests.support.aio import waited


async def authenticated(cache: KeyCache, text: str, *, touch: bool = True) -> Principal:
    """The principal of a key. Raises KeyRefused and StoreUnavailable."""
    return await waited(cache.authenticate(cache.lookup_hash(text), text, touch=touch))


def remembered(cache: KeyCache, text: str, *, touch: bool = True) -> Principal | None:
    """The principal of a key that is good and needs no read, else None."""
    try:
        found = cache.authenticate(cache.lookup_hash(text), text, touch=touch)
    except KeyRefused:
        return None
    if isinstance(found, Coroutine):
        found.close()
        return None
    return found
