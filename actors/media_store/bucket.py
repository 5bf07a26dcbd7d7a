"""A bucket of copies, in any storage with the S3 protocol, used from any thread.

botocore implements it, and is imported when the first bucket is used: it takes a quarter of a
second and forty megabytes, which a gateway without a bucket does not spend. A copy larger than one
part is uploaded in parts, which are durable once the storage has them: a resumed copy begins with
the next part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final

from actors.media_store import storage
from actors.media_store.copies import Copy, CopyProgress, Kept
from actors.media_store.specs import BucketSpec

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 30.0


class BucketMissing(Exception):
    """The package for S3 is not installed."""

    def __init__(self) -> None:
        super().__init__("a bucket needs the extra: pip install 'model-gateway[s3]'")


class BucketFault(OSError):
    """The storage refused an operation, or could not be reached; `code` is the storage's."""

    def __init__(self, operation: str, code: str) -> None:
        super().__init__(f"{operation}: {code}")
        self.code = code


class S3Client:
    """Operations on the objects of one bucket, by keys below its prefix; they block."""

    def __init__(self, spec: BucketSpec, *, connections: int) -> None:
        self._spec = spec
        self._connections = connections
        self._made: tuple[Any, type[Exception], type[Exception]] | None = None

    def ask(self, operation: str, key: str, **params: Any) -> Any:
        """Execute one operation on an object. Raises BucketFault, BucketMissing."""
        return self._ask(operation, Key=self._spec.prefix + key, **params)

    def keys(self, prefix: str) -> Iterator[str]:
        """Iterate over the keys with this prefix. Raises BucketFault, BucketMissing."""
        params = {"Prefix": self._spec.prefix + prefix}
        while True:
            page = self._ask("list_objects_v2", **params)
            for entry in page.get("Contents", ()):
                yield entry["Key"].removeprefix(self._spec.prefix)
            if not page.get("IsTruncated"):
                return
            params["ContinuationToken"] = page["NextContinuationToken"]

    def link(self, key: str, *, seconds: int, **params: str) -> str:
        """Return a link to an object that needs no keys for so long. Raises BucketMissing."""
        client, _, _ = self._client()
        params |= {"Bucket": self._spec.bucket, "Key": self._spec.prefix + key}
        url: str = client.generate_presigned_url("get_object", Params=params, ExpiresIn=seconds)
        return url

    def _ask(self, operation: str, **params: Any) -> Any:
        client, refused, failed = self._client()
        try:
            return getattr(client, operation)(Bucket=self._spec.bucket, **params)
        except refused as error:
            code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
            raise BucketFault(operation, code) from error
        except failed as error:
            raise BucketFault(operation, type(error).__name__) from error

    def _client(self) -> tuple[Any, type[Exception], type[Exception]]:
        """Return the client; two threads may both make the first one, which is harmless."""
        if self._made is None:
            try:
                from botocore.config import Config
                from botocore.exceptions import BotoCoreError, ClientError
                from botocore.session import Session
            except ImportError as error:
                raise BucketMissing from error
            spec = self._spec
            client = Session().create_client(
                "s3",
                endpoint_url=spec.endpoint,
                region_name=spec.region,
                aws_access_key_id=spec.access_key,
                aws_secret_access_key=spec.secret_key,
                config=Config(
                    signature_version="s3v4",
                    s3={"addressing_style": "path"},
                    connect_timeout=CONNECT_SECONDS,
                    read_timeout=READ_SECONDS,
                    retries={"total_max_attempts": 2, "mode": "standard"},
                    max_pool_connections=self._connections,
                    # Other storages do not support the newer checksums.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            )
            self._made = client, ClientError, BotoCoreError
        return self._made


PART_BYTES: Final = 8 * 1024 * 1024  # at least five, and at most 10,000 of them: 80 GB

REDIRECT_SECONDS: Final = 3600  # validity of the storage's own link, made at each fetch


class BucketStorage:
    """A CopyStorage in a bucket."""

    def __init__(self, spec: BucketSpec, *, part_bytes: int = PART_BYTES) -> None:
        self._client = S3Client(spec, connections=storage.THREADS)
        self._part_bytes = part_bytes
        self._threads = ThreadPoolExecutor(storage.THREADS, thread_name_prefix="media-bucket")

    async def open(self, copy: Copy) -> BucketWriting:
        """See CopyStorage."""
        return BucketWriting(copy, self._ask, self._part_bytes)

    async def remove(self, copy: Copy) -> None:
        """See CopyStorage."""
        if copy.upload_id is not None:
            with suppress(storage.Lost):  # expected
                await self._ask("abort_multipart_upload", copy.id, UploadId=copy.upload_id)
        await self._ask("delete_object", copy.id)

    async def served(self, kept: Kept) -> str:
        """See CopyStorage."""
        sign = partial(
            self._client.link,
            _key(kept.id),
            seconds=REDIRECT_SECONDS,
            ResponseContentType=kept.content_type,
            ResponseContentDisposition=f'inline; filename="{kept.file_name}"',
        )
        return await storage.in_thread(self._threads, sign)

    async def close(self) -> None:
        """See CopyStorage."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, operation: str, copy_id: str, **params: Any) -> Any:
        """Execute one operation on the object of a copy. Raises StorageFault."""

        ask = partial(self._client.ask, operation, _key(copy_id), **params)
        try:
            return await storage.in_thread(self._threads, ask)
        except BucketFault as error:
            fault = storage.Lost if error.code == "NoSuchUpload" else storage.StorageFault
            raise fault(str(error)) from error


class BucketWriting:
    """An object being written: at most one part of it is in memory."""

    def __init__(self, copy: Copy, ask: Callable[..., Any], part_bytes: int) -> None:
        self.done = len(copy.parts) * part_bytes
        self._ask = partial(ask, copy_id=copy.id)
        self._content_type = copy.content_type
        self._part_bytes = part_bytes
        self._upload_id = copy.upload_id
        self._parts = list(copy.parts)
        self._saved = len(self._parts)
        self._part = bytearray()

    async def write(self, piece: bytes) -> None:
        """See Writing."""
        self._part += piece
        self.done += len(piece)
        while len(self._part) >= self._part_bytes:
            part = bytes(self._part[: self._part_bytes])
            del self._part[: self._part_bytes]
            await self._upload(part)

    async def restart(self) -> None:
        """See Writing."""
        upload_id, self._upload_id = self._upload_id, None
        self._parts.clear()
        self._part.clear()
        self.done = self._saved = 0
        if upload_id is not None:
            with suppress(storage.Lost):  # expected
                await self._ask("abort_multipart_upload", UploadId=upload_id)

    async def save(self) -> CopyProgress | None:
        """See Writing."""
        if len(self._parts) == self._saved:
            return None
        self._saved = len(self._parts)
        safe = self._saved * self._part_bytes
        return CopyProgress(safe, None, self._upload_id, tuple(self._parts))

    async def finish(self, content_type: str) -> None:
        """See Writing."""
        if not self._parts:
            await self._ask("put_object", Body=bytes(self._part), ContentType=content_type)
            return
        if self._part:
            await self._upload(bytes(self._part))
        parts = [{"PartNumber": at, "ETag": tag} for at, tag in enumerate(self._parts, 1)]
        upload = {"Parts": parts}
        await self._ask(
            "complete_multipart_upload", UploadId=self._upload_id, MultipartUpload=upload
        )

    async def close(self) -> None:
        """See Writing."""
        self._part.clear()

    async def _upload(self, part: bytes) -> None:
        if self._upload_id is None:
            begun = await self._ask("create_multipart_upload", ContentType=self._content_type)
            self._upload_id = begun["UploadId"]
        number = len(self._parts) + 1
        response = await self._ask(
            "upload_part", UploadId=self._upload_id, PartNumber=number, Body=part
        )
        self._parts.append(response["ETag"])


def _key(copy_id: str) -> str:
    return f"media/{copy_id}"
