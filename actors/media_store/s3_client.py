"""One bucket in any storage that speaks S3, asked from whatever thread wants something of it.

botocore speaks it, and is imported when the first bucket is asked: it takes a quarter of a second
and forty megabytes, which no gateway without a bucket has to spend.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from actors.media_store.spec import BucketSpec

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 30.0


class BucketMissing(Exception):
    """The package that speaks S3 is not installed."""

    def __init__(self) -> None:
        super().__init__("a bucket needs the extra: pip install 'model-gateway[s3]'")


class BucketFault(OSError):
    """The storage refused an operation, or could not be reached; `code` is the storage's word."""

    def __init__(self, operation: str, code: str) -> None:
        super().__init__(f"{operation}: {code}")
        self.code = code


class S3Client:
    """Operations on the objects of one bucket, by keys below its prefix; they block."""

    def __init__(self, spec: BucketSpec, *, connections: int) -> None:
        self._spec = spec
        self._connections = connections
        self._made: tuple[Any, type[Exception], type[Exception]] | None = None

    def __repr__(self) -> str:
        return f"<S3Client {self._spec.bucket}>"

    def ask(self, operation: str, key: str, **params: Any) -> Any:
        """One operation on an object. Raises BucketFault, BucketMissing."""
        return self._ask(operation, Key=self._spec.prefix + key, **params)

    def keys(self, prefix: str) -> Iterator[str]:
        """The keys that begin so, by and by. Raises BucketFault, BucketMissing."""
        params = {"Prefix": self._spec.prefix + prefix}
        while True:
            page = self._ask("list_objects_v2", **params)
            for entry in page.get("Contents", ()):
                yield entry["Key"].removeprefix(self._spec.prefix)
            if not page.get("IsTruncated"):
                return
            params["ContinuationToken"] = page["NextContinuationToken"]

    def link(self, key: str, *, seconds: int, **params: str) -> str:
        """A link to an object that needs no keys for so long. Raises BucketMissing."""
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
        """The client; made twice when two threads want the first, which does no harm."""
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
                    # Storages other than the first one do not know the newer checksums.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            )
            self._made = client, ClientError, BotoCoreError
        return self._made
