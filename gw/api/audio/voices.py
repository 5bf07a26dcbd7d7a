"""`/v1/audio/voices`: voices are cloned from recordings and listed (reference 7.7)."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

import msgspec
from msgspec import Meta

from actors.catalogs import CatalogUnavailable
from channels.media.replies import Done
from channels.media.results import VoiceResult
from gw.api.failures import unavailable
from gw.api.keyed_handler import KeyedHandler
from gw.api.media_submit import MediaSubmit, media_of
from gw.api.model_call import ModelCall
from gw.calls.bills import UnitBill
from gw.calls.media_calls import Delivery, SubmitResult
from gw.error_bodies import dumps
from gw.media.registrations import read_voice
from gw.voices import Voice, new_voice_id

JSON = "application/json"


_Id = Annotated[str, Meta(description="The voice's id, for `voice` of speech and films.")]
_Name = Annotated[str, Meta(description="Its name.")]


class ClonedVoice(TypedDict):
    """A voice that was cloned."""

    id: _Id
    name: _Name
    kind: Annotated[Literal["cloned"], Meta(description="Always `cloned`.")]
    status: Annotated[Literal["ready"], Meta(description="Always `ready`.")]
    created_at: Annotated[int, Meta(description="When it was cloned, in Unix seconds.")]


class ListedVoice(TypedDict):
    """A voice that the account may use."""

    id: _Id
    name: _Name
    kind: Annotated[Literal["preset", "cloned"], Meta(description="`cloned`: the account's own.")]
    language: Annotated[str | None, Meta(description="What it speaks, if known.")]
    preview_url: Annotated[str | None, Meta(description="A link to a sample, if there is one.")]


class Voices(TypedDict):
    """The voices that the account may use."""

    voices: Annotated[
        list[ListedVoice], Meta(description="Presets, then its own voices, newest first.")
    ]


class VoicesHandler(KeyedHandler):
    """Clones voices for their price, and lists them for free."""

    async def on_get(self) -> None:
        """List presets, then the account's voices, newest first."""
        media = media_of(self)
        try:
            offers = await media.catalogs.preset_voices()
        except CatalogUnavailable as failure:
            raise unavailable(failure, self.services.current.redactor) from failure
        own = await media.voices.of_account(self.principal.account_id)
        presets = [{**msgspec.to_builtins(offer.item), "kind": "preset"} for offer in offers]
        cloned = [
            {"id": voice.id, "name": voice.name, "language": None, "preview_url": None}
            | {"kind": "cloned"}
            for voice in own
        ]
        shown = [{name: one[name] for name in _SHOWN} for one in (*presets, *cloned)]
        self.write(dumps({"voices": shown}))

    async def on_submit(self, begun: ModelCall, /) -> None:
        """Clone a voice; after a disconnect the client finds the voice in the list."""
        submit, voice_id = MediaSubmit(begun, "voice"), new_voice_id()
        request = await submit.read_submission(read_voice, model=lambda read: read.model)
        call = submit.call(
            request,
            bill=UnitBill(submit.price(), 1),
            cheaper="or use a preset voice.",
            made_id=voice_id,
            deliver=lambda made: self._delivered(made, voice_id, request.name),
        )
        await submit.run_detached(call, media_of(self).voice)

    async def _delivered(self, made: SubmitResult, voice_id: str, name: str) -> Delivery:
        """Return the voice, stored for its account before it is charged."""
        assert isinstance(made.reply, Done), made
        result = made.reply.result
        assert isinstance(result, VoiceResult), result
        now = self.services.clock.now()
        await media_of(self).voices.add_voice(
            Voice(voice_id, name, made.candidate.channel_id, result.upstream_id),
            account_id=self.principal.account_id,
            call_id=self.call_id,
            created_at=now,
        )
        shown: ClonedVoice = {
            "id": voice_id,
            "name": name,
            "kind": "cloned",
            "status": "ready",
            "created_at": int(now),
        }
        return Delivery(JSON, dumps(shown))


_SHOWN = ("id", "name", "kind", "language", "preview_url")
