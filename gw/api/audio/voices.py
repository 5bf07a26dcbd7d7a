"""`/v1/audio/voices`: a voice is cloned from a recording; those that there are (contract §6)."""

from __future__ import annotations

import msgspec

from actors.catalogs.catalogs import CatalogUnavailable
from channels.families import VOICES
from channels.media.replies import Done, VoiceResult
from gw.api.base import ApiHandler
from gw.api.catalogs import unavailable
from gw.api.media_submit import MediaSubmit, media_of
from gw.calls.exchange_upstream import Made
from gw.calls.unit_bill import UnitBill
from gw.calls.whole_submit import Delivery
from gw.errors.render import dumps
from gw.media import read_voice
from gw.voices.store import Voice, new_voice_id

JSON = "application/json"


class VoicesHandler(ApiHandler):
    """Voices: one is made for its price, the list is free."""

    route = "audio_voices"
    protocol = VOICES.protocol
    limited = billed = idempotent = True

    async def on_get(self) -> None:
        """Presets, then the account's own, newest first."""
        media = media_of(self)
        try:
            offers = await media.catalogs.preset_voices()
        except CatalogUnavailable as failure:
            raise unavailable(failure, self.services.redact) from failure
        own = await media.voices.of_account(self.principal.account_id)
        presets = [{**msgspec.to_builtins(offer.item), "kind": "preset"} for offer in offers]
        cloned = [
            {"id": voice.id, "name": voice.name, "language": None, "preview_url": None}
            | {"kind": "cloned"}
            for voice in own
        ]
        shown = [{name: one[name] for name in _SHOWN} for one in (*presets, *cloned)]
        self.write(dumps({"voices": shown}))

    async def on_post(self) -> None:
        """A submit goes on when its client leaves, who finds the voice in the list."""
        submit, voice_id = await MediaSubmit.begin(self, "voice"), new_voice_id()
        request = await submit.read(read_voice, model=lambda read: read.model)
        call = submit.whole_call(
            request,
            bill=UnitBill(submit.price(), 1, task_id=voice_id),
            cheaper="or use a preset voice.",
            upstream_key=voice_id,
            deliver=lambda made: self._delivered(made, voice_id, request.name),
        )
        await submit.run_whole_unattended(call, media_of(self).voice)

    async def _delivered(self, made: Made, voice_id: str, name: str) -> Delivery:
        """The voice, kept for its account before it is paid for."""
        assert isinstance(made.reply, Done), made
        result = made.reply.result
        assert isinstance(result, VoiceResult), result
        now = self.services.clock.now()
        await media_of(self).voices.add(
            Voice(voice_id, name, made.candidate.channel_id, result.upstream_id),
            account_id=self.principal.account_id,
            call_id=self.call_id,
            created_at=now,
        )
        shown = {"id": voice_id, "name": name, "kind": "cloned", "status": "ready"}
        return Delivery(JSON, dumps({**shown, "created_at": int(now)}))


_SHOWN = ("id", "name", "kind", "language", "preview_url")
