"""A bucket's upload in parts, when the storage forgets it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.media_store.storage import BucketWriting, Lost
from actors.media_store.store import Copy, Progress


def copy_of(parts: tuple[str, ...] = (), upload_id: str | None = None) -> Copy:
    return Copy(
        id="vid_1-0", job_id="vid_1", lease="a", channel_id="one", wire="videos",
        upstream_id="u", url=None, content_type="video/mp4", attempts=0, done=4 * len(parts),
        size=None, validator=None, upload_id=upload_id, parts=parts, age_seconds=0.0,
    )  # fmt: skip


class Storage:
    """Notes what it is asked; `lost` uploads are not known."""

    def __init__(self, *, lost: bool = False) -> None:
        self.asked: list[tuple[str, Any]] = []
        self._lost = lost

    async def ask(self, operation: str, copy_id: str, **params: Any) -> dict[str, str]:
        assert copy_id == "vid_1-0"
        self.asked.append((operation, params.get("PartNumber")))
        if self._lost and operation in ("upload_part", "abort_multipart_upload"):
            raise Lost(operation)
        return {"UploadId": "up", "ETag": f"tag{params.get('PartNumber')}"}


async def test_parts_are_whole_and_the_rest_waits_for_the_end() -> None:
    storage = Storage()
    writing = BucketWriting(copy_of(), storage.ask, part_bytes=4)
    for piece in (b"abc", b"defgh", b"i"):
        await writing.write(piece)
    assert await writing.save() == Progress(8, None, "up", ("tag1", "tag2"))
    assert await writing.save() is None
    assert writing.done == 9
    await writing.finish("video/mp4")
    assert [name for name, _ in storage.asked] == [
        "create_multipart_upload",
        "upload_part",
        "upload_part",
        "upload_part",
        "complete_multipart_upload",
    ]


async def test_a_forgotten_upload_is_lost_and_can_be_begun_anew() -> None:
    storage = Storage(lost=True)
    writing = BucketWriting(copy_of(("tag1",), "old"), storage.ask, part_bytes=4)
    assert writing.done == 4
    with pytest.raises(Lost):
        await writing.write(b"efgh")
    await writing.restart()
    assert writing.done == 0
    assert storage.asked[-1] == ("abort_multipart_upload", None)
