"""What a request names that was made before: voices and avatars, the account's own or presets.

The upstream's name of each takes the place of ours, and the call is pinned to the channel that
knows it (contract for media §5). An id of another account's is as unknown as any other.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from actors.catalogs.catalogs import Catalogs
from actors.jobs.jobs import PREFIXES, Jobs
from channels.media.replies import AvatarResult
from gw.calls.job import Pin
from gw.errors.table import INVALID_REQUEST, GatewayError
from gw.voices.store import Voices, is_voice_id


class Reference(NamedTuple):
    """What an upstream calls it, and the channel that knows it, where only one does."""

    upstream_id: str
    pins: tuple[Pin, ...] = ()


async def own_voice(named: str, voices: Voices, *, account_id: str) -> Reference | None:
    """A voice that the account has cloned; None for what is no id of a cloned voice.

    Raises GatewayError for one that is not the account's, and StoreUnavailable.
    """
    if not is_voice_id(named):
        return None
    voice = await voices.find(named, account_id=account_id)
    if voice is None:
        _refuse("voice", "this account has no voice of this id")
    return Reference(voice.upstream_id, (Pin(voice.channel_id, "voice"),))


async def voice_of(named: str, voices: Voices, catalogs: Catalogs, *, account_id: str) -> Reference:
    """A voice for a digital human: one that was cloned, or a preset.

    Raises GatewayError, CatalogUnavailable and StoreUnavailable.
    """
    own = await own_voice(named, voices, account_id=account_id)
    if own is not None:
        return own
    if not any(offer.item.id == named for offer in await catalogs.preset_voices()):
        _refuse("voice", "there is no voice of this id")
    return Reference(named)


async def avatar_of(named: str, jobs: Jobs, catalogs: Catalogs, *, account_id: str) -> Reference:
    """An avatar: one that the account has registered and that is ready, or a preset.

    Raises GatewayError, CatalogUnavailable and StoreUnavailable.
    """
    if named.startswith(PREFIXES["avatar"]):
        job = await jobs.read(account_id, "avatar", named)
        if job is not None and not job.has_ended:
            _refuse("avatar", "this avatar is not ready yet")
        result = None if job is None else job.result
        if job is not None and isinstance(result, AvatarResult):
            assert job.channel_id is not None
            return Reference(result.upstream_id, (Pin(job.channel_id, "avatar"),))
        if job is not None:
            _refuse("avatar", "this avatar could not be made")
    offers = await catalogs.preset_avatars()
    channel_id = next((offer.channel_id for offer in offers if offer.item.id == named), None)
    if channel_id is None:
        _refuse("avatar", "there is no avatar of this id")
    return Reference(named, (Pin(channel_id, "avatar"),))


def _refuse(param: str, why: str) -> NoReturn:
    raise GatewayError(INVALID_REQUEST, f"{param}: {why}.", param=param)
