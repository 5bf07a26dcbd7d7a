"""The state of copies in PostgreSQL: find, claim, update, keep, drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from actors.media_store import copies
from actors.store.database import Database
from actors.store.queries import load
from actors.wallet.storable import to_json

SQL: Final = load("actors.media_store", "store.sql")
# A copy that its process never finished is taken over by any other after this.
CLAIM_SECONDS: Final = 60.0
EXPIRED_MAX: Final = 500  # per statement
# Represents a job without any file, so that it is not scanned again.
NOTHING: Final = copies.FileSource(position=-1, url=None, content_type="")


class CopyStore:
    """The rows of one kind of store. Every method raises StoreError."""

    def __init__(
        self, database: Database, kind: copies.StoreKind, *, claim_seconds: float = CLAIM_SECONDS
    ) -> None:
        self._database = database
        self.claim_seconds = claim_seconds
        self.kind: copies.StoreKind = kind

    async def found(self, made: Sequence[copies.SucceededTask]) -> int:
        """Add the files of these jobs; return how many are new."""
        files = [
            {
                "id": f"{one.job_id}-{source.position}",
                "job_id": one.job_id,
                "position": source.position,
                "state": "dropped" if source is NOTHING else "waiting",
                "channel_id": one.channel_id,
                "wire": one.upstream_protocol,
                "upstream_id": one.upstream_id,
                "url": source.url,
                "content_type": source.content_type,
            }
            for one in made
            for source in copies.sources_of(one) or [NOTHING]
        ]
        return len(await self._rows("found", files=to_json(files))) if files else 0

    async def claim(
        self,
        state: Literal["waiting", "dropping"],
        claim_id: str,
        limit: int,
        *,
        without: Sequence[str] = (),
    ) -> list[copies.Copy]:
        """Claim copies to be made, or to be dropped; none of the accounts `without`."""
        rows = await self._rows(
            "claim",
            state=state,
            claim_id=claim_id,
            limit=limit,
            seconds=self.claim_seconds,
            without=list(without),
        )
        return [_copy(row, claim_id) for row in rows]

    async def hold_on(self, copy: copies.Copy, progress: copies.CopyProgress | None) -> bool:
        """Renew the claim; False if it is lost."""
        resume = progress or copies.CopyProgress(0, None)
        return await self._moved(
            "hold_on",
            copy,
            seconds=self.claim_seconds,
            done=None if progress is None else progress.done,
            validator=resume.validator,
            upload_id=resume.upload_id,
            parts=list(resume.parts),
        )

    async def room(self, copy: copies.Copy, size: int, *, bytes_max: int) -> bool:
        """Reserve room for so many bytes; False while there is none."""
        rows = await self._rows(
            "room", id=copy.id, claim_id=copy.claim_id, size=size, max=bytes_max
        )
        return bool(rows[0][0])

    async def kept(self, copy: copies.Copy, *, size: int, content_type: str) -> bool:
        """Mark the copy as kept; False if its claim is lost."""
        return await self._moved("kept", copy, size=size, content_type=content_type)

    async def later(
        self, copy: copies.Copy, *, pause_seconds: float, error: str | None, counts: bool = True
    ) -> bool:
        """Return a copy for a later attempt; `counts`: this one counts as an attempt."""
        return await self._moved(
            "later", copy, pause=pause_seconds, error=error, attempts=int(counts)
        )

    async def given_up(self, copy: copies.Copy, *, error: str) -> bool:
        """Give the copy up."""
        return await self._moved("given_up", copy, error=error)

    async def expire(self, days: int) -> int:
        """Mark copies kept for so long to be dropped; return their number."""
        return len(await self._rows("expire", days=days, limit=EXPIRED_MAX))

    async def dropped(self, copy: copies.Copy) -> bool:
        """Mark a copy as dropped."""
        return await self._moved("dropped", copy)

    async def of_jobs(self, jobs: Sequence[str]) -> Mapping[str, Mapping[int, copies.Kept]]:
        """Return the kept copies of these jobs, by job and position."""
        found: dict[str, dict[int, copies.Kept]] = {}
        for row in await self._rows("of_jobs", jobs=list(jobs)):
            kept = _kept(row)
            found.setdefault(kept.job_id, {})[kept.position] = kept
        return found

    async def one(self, copy_id: str) -> copies.Kept | None:
        """Return a kept copy."""
        rows = await self._rows("one", id=copy_id)
        return _kept(rows[0]) if rows else None

    async def _rows(self, name: str, **params: Any) -> list[Any]:
        return await self._database.fetch_all(SQL[name], {"store": self.kind, **params})

    async def _moved(self, name: str, copy: copies.Copy, **params: Any) -> bool:
        return bool(await self._rows(name, id=copy.id, claim_id=copy.claim_id, **params))


def _copy(row: Sequence[Any], claim_id: str) -> copies.Copy:
    copy_id, job_id, account_id, channel_id, upstream_protocol, upstream_id, url = row[:7]
    content_type, attempts, done, size, validator, upload_id, parts, age_seconds = row[7:]
    return copies.Copy(
        id=copy_id,
        job_id=job_id,
        account_id=account_id,
        claim_id=claim_id,
        channel_id=channel_id,
        upstream_protocol=upstream_protocol,
        upstream_id=upstream_id,
        url=url,
        content_type=content_type,
        attempts=attempts,
        done=done,
        size=size,
        validator=validator,
        upload_id=upload_id,
        parts=tuple(parts),
        age_seconds=age_seconds,
    )


def _kept(row: Sequence[Any]) -> copies.Kept:
    copy_id, job_id, account_id, position, content_type, size, kept_at = row
    return copies.Kept(
        id=copy_id,
        job_id=job_id,
        account_id=account_id,
        position=position,
        content_type=content_type,
        size=size,
        kept_at=kept_at,
    )
