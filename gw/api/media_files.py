"""`GET /v1/media/{name}`: a copy of a result, for clients with a valid signed link.

A copy in a folder is sent from here, whole or in part (RFC 9110, 14); for a copy in a bucket the
client is redirected to the storage, by a link of the storage that is valid for an hour.
"""

from __future__ import annotations

import re

from actors.media_store.copies import Kept
from actors.media_store.storage import LocalFile, StorageFault
from channels.shares import OWNER
from gw import errors
from gw.api.handler import ApiHandler
from metrics.logs import EventLog

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


class MediaFileHandler(ApiHandler):
    """Serves without a key: the signature proves that the gateway made the link."""

    async def on_get(self, name: str) -> None:
        store, query = self.services.media_store, self.get_query_argument
        if store is None or not store.is_good_link(
            self.request.path or "", query("expires", ""), query("signature", "")
        ):
            raise errors.GatewayError(
                errors.PERMISSION_DENIED, "The link is not valid, or has expired."
            )
        OWNER.set(name)
        try:
            found = await store.served(name)
        except StorageFault as fault:
            raise _unreadable() from fault
        if found is None:
            raise errors.GatewayError(errors.NOT_FOUND, "The file is not kept any more.")
        kept, source = found
        if isinstance(source, str):
            self.set_status(307)
            self.set_header("Location", source)
            self.finish(b"")
            return
        try:
            with self.services.copies.reading(name, kept.account_id):
                await self._send(kept, source)
        finally:
            await source.close()

    on_head = on_get

    async def _send(self, kept: Kept, file: LocalFile) -> None:
        start, end = self._range(kept)
        self.set_header("Content-Type", kept.content_type)
        self.set_header("Content-Length", str(end - start))
        self.set_header("Accept-Ranges", "bytes")
        self.set_header("Etag", _tag(kept))
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "private, max-age=604800")
        if self.request.method != "HEAD":
            try:
                async for piece in file.pieces(start, end):
                    self.write(piece)
                    await self.flush()
            except StorageFault as fault:
                if not self.request.has_head_out:
                    raise _unreadable() from fault
                # The connection is closed, so that the client notices the missing part.
                EventLog("gw.web").warning("media_file_cut", trace=self.call_id.hex, why=str(fault))
                self.break_off()
                return
        self.finish()

    def _range(self, kept: Kept) -> tuple[int, int]:
        """Return the first byte and the one after the last; the whole copy without a `Range`."""
        headers = self.request.headers
        match = _RANGE.fullmatch(headers.get("Range", ""))
        if match is None or match.group() == "bytes=-":
            return 0, kept.size
        if headers.get("If-Range", _tag(kept)) != _tag(kept):
            return 0, kept.size
        first, last = match.groups()
        start = int(first) if first else max(0, kept.size - int(last))
        end = min(kept.size, int(last) + 1) if first and last else kept.size
        if start >= end:
            raise errors.GatewayError(
                errors.INVALID_REQUEST,
                f"The file has {kept.size} bytes.",
                http_status=416,
                headers={"Content-Range": f"bytes */{kept.size}"},
            )
        self.set_status(206)
        self.set_header("Content-Range", f"bytes {start}-{end - 1}/{kept.size}")
        return start, end


def _unreadable() -> errors.GatewayError:
    return errors.GatewayError(errors.NO_CHANNEL_AVAILABLE, "The file cannot be read now.")


def _tag(kept: Kept) -> str:
    return f'"{kept.id}"'
