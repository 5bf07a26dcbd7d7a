"""Sign requests for AWS (Signature Version 4), with botocore: the extra `aws`.

Credentials are those of the configuration, or else botocore's usual chain: environment, profile,
web identity, container, instance. That chain blocks, so it runs in a thread; what it gives is asked
for again every few minutes, and it renews what expires long before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from hashlib import sha256
from typing import Any

from msgspec import Struct

from channels.authorizers.refreshing import Refreshing
from channels.authorizers.specs import AwsSpec
from channels.errors import CredentialsUnavailable
from channels.http.interfaces import UpstreamRequest, UpstreamResponse, Wire

EXTRA = "pip install 'model-gateway[aws]'"
# A body up to this size is hashed at once; a thread costs more than it.
HASHED_AT_ONCE_BYTES_MAX = 64 * 1024
# AWS takes signatures that are up to five minutes off.
SKEW_SECONDS_MAX = 240.0
# botocore renews its credentials ten minutes before their end: these are good for longer.
CHAIN_GOOD_SECONDS = 360.0

_TIMESTAMP = "%Y%m%dT%H%M%SZ"
_REFUSALS = (400, 401, 403)
_EXPIRED = ("ExpiredToken", "UnrecognizedClient", "InvalidClientTokenId")


class AwsKeys(Struct, frozen=True):
    """One set of credentials, under the names that botocore's signer reads."""

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
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._now = now
        self._skew_seconds = 0.0  # how far the upstream's clock is ahead
        self._signed_at = 0.0  # Unix seconds by the upstream's clock, of the last signature
        self._keys: Refreshing[AwsKeys] = Refreshing(on_failure, monotonic=monotonic)
        self._chain: Any = None  # botocore's credentials, which renew themselves

    def __repr__(self) -> str:
        return f"<AwsAuthorizer {self._spec.region}>"

    async def proof(self, request: UpstreamRequest, wire: Wire) -> bytes:
        """See Authorizer."""
        keys = await self._keys.get(self._load)
        body = request.body
        if len(body) <= HASHED_AT_ONCE_BYTES_MAX:
            digest = sha256(body).hexdigest()
        else:
            digest = (await asyncio.to_thread(sha256, body)).hexdigest()
        self._signed_at = self._now() + self._skew_seconds
        signed_at = datetime.fromtimestamp(self._signed_at, UTC).strftime(_TIMESTAMP)
        return _signed(self._spec, keys, request, digest=digest, signed_at=signed_at)

    def may_mend(self, response: UpstreamResponse) -> bool:
        """See Authorizer: a clock that is off is learned, spent keys are asked for anew."""
        if response.status not in _REFUSALS:
            return False
        if (response.header("x-amzn-errortype") or "").startswith(_EXPIRED):
            if self._spec.access_key_id or not self._keys.drop():
                return False
            self._chain = None
            return True
        if response.status == 400:  # its Date is as good as any, but it was not refused for its own
            return False
        try:
            there = parsedate_to_datetime(response.header("date") or "").timestamp()
        except ValueError:
            return False
        if abs(there - self._signed_at) <= SKEW_SECONDS_MAX:
            return False
        self._skew_seconds = there - self._now()
        return True

    async def _load(self) -> tuple[AwsKeys, float]:
        spec = self._spec
        if not spec.access_key_id:
            return await asyncio.to_thread(self._from_chain), CHAIN_GOOD_SECONDS
        await asyncio.to_thread(_signer)  # its import takes a while
        token = spec.session_token or None
        return AwsKeys(spec.access_key_id, spec.secret_access_key, token), float("inf")

    def _from_chain(self) -> AwsKeys:
        """What botocore finds. Blocks; of one thread at a time."""
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
        except Exception as error:  # whatever the library meets on its way
            raise CredentialsUnavailable(f"aws-sigv4: {error}") from error
        return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token)


def _signed(
    spec: AwsSpec, keys: AwsKeys, request: UpstreamRequest, *, digest: str, signed_at: str
) -> bytes:
    """The lines of the head that sign a request."""
    signer, make_request = _signer()
    # What is written with all other headers, and has to be signed as well.
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
    """The signer's class and the request's. Raises CredentialsUnavailable without the library."""
    try:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
    except ImportError as error:
        raise CredentialsUnavailable(f"aws-sigv4 needs botocore: {EXTRA}") from error

    class Signer(SigV4Auth):  # type: ignore[misc]
        """botocore's, by a time of ours: it has been told how far the upstream's clock is off."""

        def sign(self, request: Any, signed_at: str) -> None:
            """Add the signature, and the token of credentials that are lent."""
            request.context["timestamp"] = signed_at
            if self.credentials.token:
                request.headers["X-Amz-Security-Token"] = self.credentials.token
            canonical = self.canonical_request(request)
            signature = self.signature(self.string_to_sign(request, canonical), request)
            self._inject_signature_to_request(request, signature)

    return Signer, AWSRequest
