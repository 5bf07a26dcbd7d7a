"""Signs requests for AWS (Signature Version 4), with botocore: the extra `aws`.

Credentials are the configuration's, else those of botocore's chain: environment, profile, web
identity, container, instance. The chain blocks, so it runs in a thread; its credentials are read
again every few minutes, and it renews expiring ones long before their end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from typing import Any

from msgspec import Struct

from channels.authorizers.refreshing import Refreshing
from channels.authorizers.specs import AwsSpec
from channels.errors import CredentialsUnavailable
from channels.http.interfaces import UpstreamClient, UpstreamRequest, UpstreamResponse
from channels.http.request_writer import BodyPieces
from channels.http_date import read_http_date
from channels.registry import ObtainedSecrets

AWS_EXTRA = "pip install 'model-gateway[aws]'"
# A body up to this size is hashed in the loop; a thread costs more.
HASHED_AT_ONCE_BYTES_MAX = 64 * 1024
# AWS accepts a difference of up to five minutes. No header is believed that says a year.
SKEW_SECONDS_MAX = 240.0
SKEW_BELIEVED_SECONDS_MAX = 366 * 86_400.0
# botocore renews its credentials ten minutes before their end, so they are valid for longer.
CHAIN_GOOD_SECONDS = 360.0

_TIMESTAMP = "%Y%m%dT%H%M%SZ"
_REFUSALS = (400, 401, 403)
_EXPIRED = ("ExpiredToken", "UnrecognizedClient", "InvalidClientTokenId")


class AwsKeys(Struct, frozen=True):
    """One set of credentials, with the members that botocore's signer reads."""

    access_key: str
    secret_key: str
    token: str | None

    def __repr__(self) -> str:
        return "<AwsKeys>"


class AwsAuthorizer:
    """Signs the requests of one channel."""

    def __init__(
        self,
        spec: AwsSpec,
        on_failure: Callable[[CredentialsUnavailable], None],
        obtained: ObtainedSecrets,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._obtained = obtained
        self._now = now
        self._skew_seconds = 0.0  # the upstream's clock minus this one
        self._signed_at = 0.0  # Unix seconds of the last signature, by the upstream's clock
        self._keys: Refreshing[AwsKeys] = Refreshing(on_failure, monotonic=monotonic)
        self._chain: Any = None  # botocore's credentials, which renew themselves

    async def proof(self, request: UpstreamRequest, http: UpstreamClient) -> bytes:
        """See Authorizer."""
        keys = await self._keys.get(self._load)
        body = request.body
        if len(body) <= HASHED_AT_ONCE_BYTES_MAX:
            digest = _digest(body)
        else:
            digest = await asyncio.to_thread(_digest, body)
        self._signed_at = self._now() + self._skew_seconds
        signed_at = datetime.fromtimestamp(self._signed_at, UTC).strftime(_TIMESTAMP)
        return _signed(self._spec, keys, request, digest=digest, signed_at=signed_at)

    def may_mend(self, response: UpstreamResponse) -> bool:
        """See Authorizer: corrects a clock's difference, and discards expired keys."""
        if response.status not in _REFUSALS:
            return False
        if (response.header("x-amzn-errortype") or "").startswith(_EXPIRED):
            if self._spec.access_key_id or not self._keys.drop():
                return False
            self._chain = None
            return True
        if response.status == 400:  # the refusal was not for its date
            return False
        there = read_http_date(response.header("date") or "")
        if there is None:
            return False
        if abs(there - self._signed_at) <= SKEW_SECONDS_MAX:
            return False
        skew_seconds = there - self._now()
        if abs(skew_seconds) > SKEW_BELIEVED_SECONDS_MAX:
            return False
        self._skew_seconds = skew_seconds
        return True

    async def _load(self) -> tuple[AwsKeys, float]:
        spec = self._spec
        if not spec.access_key_id:
            found = await asyncio.to_thread(self._from_chain)
            self._obtained.add("keys", found.access_key, found.secret_key, found.token or "")
            return found, CHAIN_GOOD_SECONDS
        await asyncio.to_thread(_signer)  # its import is slow
        token = spec.session_token or None
        return AwsKeys(spec.access_key_id, spec.secret_access_key, token), float("inf")

    def _from_chain(self) -> AwsKeys:
        """Return botocore's credentials. Blocks; run by one thread at a time."""
        _signer()
        from botocore.session import Session

        try:
            if self._chain is None:
                self._chain = Session(profile=self._spec.profile or None).get_credentials()
            if self._chain is None:
                raise CredentialsUnavailable(
                    "aws-sigv4: none in configuration, environment, profile, container or instance"
                )
            frozen = self._chain.get_frozen_credentials()
        except CredentialsUnavailable:
            raise
        except Exception as error:  # any error of the library
            raise CredentialsUnavailable(f"aws-sigv4: {error}") from error
        return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token)


def _digest(body: bytes | BodyPieces) -> str:
    digest = sha256()
    for piece in (body,) if isinstance(body, bytes) else body.pieces:
        digest.update(piece)
    return digest.hexdigest()


def _signed(
    spec: AwsSpec, keys: AwsKeys, request: UpstreamRequest, *, digest: str, signed_at: str
) -> bytes:
    """Return the header lines that sign a request."""
    signer, make_request = _signer()
    # Headers that are sent anyway, and must be signed.
    written = {name: value for name, value in request.headers if _has_to_be_signed(name)}
    own = {"X-Amz-Content-SHA256": digest, "X-Amz-Date": signed_at}
    made = make_request(method=request.method, url=request.url, headers={**written, **own})
    signer(keys, spec.service, spec.region).sign(made, signed_at)
    lines = [f"{name}: {one}\r\n" for name, one in made.headers.items() if name not in written]
    return "".join(lines).encode("ascii")


def _has_to_be_signed(name: str) -> bool:
    return name.lower() == "content-type" or name.lower().startswith("x-amz-")


@cache
def _signer() -> tuple[Any, Any]:
    """Return the classes of signer and request. Raises CredentialsUnavailable without botocore."""
    try:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
    except ImportError as error:
        raise CredentialsUnavailable(f"aws-sigv4 needs botocore: {AWS_EXTRA}") from error

    class Signer(SigV4Auth):  # type: ignore[misc]
        """botocore's signer with a given time, which corrects the difference of clocks."""

        def sign(self, request: Any, signed_at: str) -> None:
            """Add the signature, and the token of temporary credentials."""
            request.context["timestamp"] = signed_at
            if self.credentials.token:
                request.headers["X-Amz-Security-Token"] = self.credentials.token
            canonical = self.canonical_request(request)
            signature = self.signature(self.string_to_sign(request, canonical), request)
            self._inject_signature_to_request(request, signature)

    return Signer, AWSRequest
