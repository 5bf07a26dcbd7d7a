"""References of a request to earlier results: voices and avatars, the account's own or presets.

The upstream's name replaces ours, and the call is pinned to the channel that knows it
(reference 7.5, 7.7). An id of another account is treated as unknown.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from actors.catalogs import Catalogs
from actors.jobs.service import PREFIXES, Jobs
from channels.media.results import AvatarResult
from gw.calls.media_calls import Pin
from gw.errors import INVALID_REQUEST, GatewayError
from gw.voices import Voices, is_voice_id


class Reference(NamedTuple):
    """The upstream's name, and the channel that knows it, if only one does."""

    upstream_id: str
    pins: tuple[Pin, ...] = ()


async def own_voice(named: str, voices: Voices, *, account_id: str) -> Reference | None:
    """Return a voice cloned by the account; None for ids of another kind.

    Raises GatewayError for a voice of another account, and StoreUnavailable.
    """
    if not is_voice_id(named):
        return None
    voice = await voices.find_voice(named, account_id=account_id)
    if voice is None:
        _refuse("voice", "this account has no voice of this id")
    return Reference(voice.upstream_id, (Pin(voice.channel_id, "voice"),))


async def voice_of(named: str, voices: Voices, catalogs: Catalogs, *, account_id: str) -> Reference:
    """Return a voice for a digital human: a cloned one, or a preset.

    Raises GatewayError, CatalogUnavailable and StoreUnavailable.
    """
    own = await own_voice(named, voices, account_id=account_id)
    if own is not None:
        return own
    if not any(offer.item.id == named for offer in await catalogs.preset_voices()):
        _refuse("voice", "there is no voice of this id")
    return Reference(named)


async def avatar_of(named: str, jobs: Jobs, catalogs: Catalogs, *, account_id: str) -> Reference:
    """Return an avatar: a ready one registered by the account, or a preset.

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
