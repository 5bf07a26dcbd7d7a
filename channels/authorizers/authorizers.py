"""The authorizers of channels, one per channel, created from its configuration."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from hashlib import sha256
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from channels.authorizers.specs import (
    AuthorizerSpec,
    AwsSpec,
    AzureSpec,
    GoogleSpec,
    google_info,
    google_secrets,
)
from channels.errors import CredentialsUnavailable, UpstreamError
from channels.files import read_regular
from channels.http.interfaces import Authorizer, UpstreamClient, UpstreamRequest, UpstreamResponse
from channels.http.transport import BodyPieces, Transport
from channels.registry import ChannelSpec, ObtainedSecrets
from metrics.logs import EventLog

# A value that expires, refreshed before its end: one fetch for all requests that wait.
#
# No request waits while the value is valid: its successor is fetched ahead of time, in a task, one
# at a time. Requests wait only without a valid value, and fail with the fetch.

T = TypeVar("T")

# How long a request waits for a fetch.
WAIT_SECONDS = 15.0
# How long before its end a value is refreshed, at most; half of a shorter life.
AHEAD_SECONDS = 300.0
# A value is not used in its last moments, since sending takes time, and clocks differ.
MARGIN_SECONDS = 30.0
# The pause after a failed fetch ahead of time.
RETRY_SECONDS = 15.0
# A younger value is kept, even if it is refused.
YOUNG_SECONDS = 60.0

# Fetches a value and the seconds for which it is valid. Raises CredentialsUnavailable.
Load = Callable[[], Awaitable[tuple[T, float]]]


class Refreshing(Generic[T]):
    """One value, of one event loop. `on_failure` is called for each failed fetch."""

    def __init__(
        self,
        on_failure: Callable[[CredentialsUnavailable], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_failure = on_failure
        self._monotonic = monotonic
        self._value: tuple[T] | None = None
        self._fetched_at = 0.0  # monotonic seconds, as the next two
        self._refresh_at = 0.0
        self._ends_at = 0.0
        self._fetch: asyncio.Task[CredentialsUnavailable | None] | None = None

    def __repr__(self) -> str:
        state = "none" if self._value is None else "held"
        return f"<Refreshing {state}{', fetching' if self._fetch else ''}>"

    async def get(self, load: Load[T]) -> T:
        """Return the value. Raises CredentialsUnavailable without one."""
        now, value = self._monotonic(), self._value
        if value is not None and now < self._ends_at:
            if now >= self._refresh_at:
                self._begin(load)
            return value[0]
        fetch = self._begin(load)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                failure = await asyncio.shield(fetch)
        except TimeoutError:
            raise CredentialsUnavailable(f"none within {WAIT_SECONDS:g} seconds") from None
        if failure is not None:
            raise CredentialsUnavailable(failure.detail) from failure
        assert self._value is not None
        return self._value[0]

    def drop(self) -> bool:
        """Discard a refused value; return False for a new one, which a fetch would return again.

        Also True if another refused request has discarded it.
        """
        if self._value is not None and self._monotonic() - self._fetched_at < YOUNG_SECONDS:
            return False
        self._value = None
        return True

    def _begin(self, load: Load[T]) -> asyncio.Task[CredentialsUnavailable | None]:
        """Return the current fetch; start one if there is none."""
        if self._fetch is None:
            self._fetch = asyncio.get_running_loop().create_task(self._run(load))
        return self._fetch

    async def _run(self, load: Load[T]) -> CredentialsUnavailable | None:
        try:
            value, seconds = await load()
        except CredentialsUnavailable as failure:
            self._refresh_at = self._monotonic() + RETRY_SECONDS
            self._on_failure(failure)
            return failure
        finally:
            self._fetch = None
        now = self._monotonic()
        self._value, self._fetched_at = (value,), now
        self._ends_at = now + seconds - min(MARGIN_SECONDS, seconds / 10)
        self._refresh_at = now + seconds - min(AHEAD_SECONDS, seconds / 2)
        return None


# Signs requests for AWS (Signature Version 4), with botocore: the extra `aws`.
#
# Credentials are the configuration's, else those of botocore's chain: environment, profile, web
# identity, container, instance. The chain blocks, so it runs in a thread; its credentials are read
# again every few minutes, and it renews expiring ones long before their end.

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

    def __repr__(self) -> str:
        return f"<AwsAuthorizer {self._spec.region}>"

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
        try:
            there = parsedate_to_datetime(response.header("date") or "").timestamp()
        except ValueError:
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


# A bearer token that expires, added to each request of a channel.

Spec = TypeVar("Spec", GoogleSpec, AzureSpec)


class TokenAuthorizer(ABC, Generic[Spec]):
    """The token of one channel, from the source of its `spec`."""

    def __init__(
        self,
        spec: Spec,
        on_failure: Callable[[CredentialsUnavailable], None],
        obtained: ObtainedSecrets,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec: Spec = spec
        self._obtained = obtained
        self._now = now
        self._line: Refreshing[bytes] = Refreshing(on_failure, monotonic=monotonic)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._line}>"

    async def proof(self, request: UpstreamRequest, http: UpstreamClient) -> bytes:
        """See Authorizer."""
        return await self._line.get(partial(self._load, request, http))

    def may_mend(self, response: UpstreamResponse) -> bool:
        """See Authorizer: discards a revoked token."""
        return response.status == 401 and self._line.drop()

    async def _load(self, request: UpstreamRequest, http: UpstreamClient) -> tuple[bytes, float]:
        token, seconds = await self.fetch(request, http)
        if not token.isascii() or not token.isprintable() or " " in token:
            raise CredentialsUnavailable("a token that no header can have")
        self._obtained.add("token", token)
        return f"Authorization: Bearer {token}\r\n".encode(), seconds

    @abstractmethod
    async def fetch(self, request: UpstreamRequest, http: UpstreamClient) -> tuple[str, float]:
        """Return a token, and its validity in seconds. Raises CredentialsUnavailable.

        `request`: one that waits for the token, which is fetched by the same proxy.
        """


# Tokens of Microsoft Entra ID (Azure AD) for an application, by its client credentials.
#
# It is one documented request, sent by the gateway's own client, with the application's secret or
# the token that a workload's platform keeps in a file (workload identity).

TOKEN_BYTES_MAX = 256 * 1024
_FORM = (
    ("Content-Type", "application/x-www-form-urlencoded"),
    ("Accept", "application/json"),
)
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class _TokenBody(Struct):
    """The token endpoint's response, of either outcome. `expires_in` is in seconds."""

    access_token: str = ""
    expires_in: float = 0
    error: str = ""
    error_description: str = ""


class AzureAuthorizer(TokenAuthorizer[AzureSpec]):
    """The token of one channel."""

    async def fetch(self, request: UpstreamRequest, http: UpstreamClient) -> tuple[str, float]:
        """See TokenAuthorizer."""
        form = await self._form()
        url = f"{self._spec.authority}/{quote(self._spec.tenant_id)}/oauth2/v2.0/token"
        asked = UpstreamRequest(
            "POST", url, _FORM, urlencode(form).encode("ascii"), request.transport
        )
        try:
            response = await http.open(asked)
            try:
                body = await response.read(TOKEN_BYTES_MAX)
            finally:
                response.close()
        except UpstreamError as error:
            raise CredentialsUnavailable(f"azure-ad: {error} {error.detail}") from error
        return _token(response.status, body)

    async def _form(self) -> dict[str, str]:
        spec = self._spec
        form = {
            "grant_type": "client_credentials",
            "client_id": spec.client_id,
            "scope": spec.scope,
        }
        if not spec.token_file:
            return {**form, "client_secret": spec.client_secret}
        try:  # the platform replaces it before it expires
            assertion = (await asyncio.to_thread(read_regular, spec.token_file)).decode("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialsUnavailable(f"azure-ad: {error}") from error
        assertion = assertion.strip()
        self._obtained.add("assertion", assertion)
        return {**form, "client_assertion_type": _ASSERTION, "client_assertion": assertion}


def _token(status: int, body: bytes) -> tuple[str, float]:
    """Return the token of a response. Raises CredentialsUnavailable, with the response's reason."""
    try:
        reply = msgspec.json.decode(body, type=_TokenBody)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CredentialsUnavailable(f"azure-ad: status {status}, no JSON") from error
    if status != 200 or not reply.access_token or not 0 < reply.expires_in < float("inf"):
        reason = f"{reply.error} {reply.error_description}".strip()
        raise CredentialsUnavailable(f"azure-ad: status {status} {reason}")
    return reply.access_token, reply.expires_in


# Tokens of Google's service accounts, with google-auth: the extra `google`.
#
# The library blocks, so it runs in a thread. It supports key files of service accounts, workload
# identity federation, and the defaults: $GOOGLE_APPLICATION_CREDENTIALS, the machine.

GOOGLE_EXTRA = "pip install 'model-gateway[google]'"
# The timeout of one request to Google's token servers; the library makes several at most.
REQUEST_SECONDS = 10.0
# The validity of a token without a known end.
UNKNOWN_SECONDS = 600.0


class GoogleAuthorizer(TokenAuthorizer[GoogleSpec]):
    """The token of one channel."""

    _credentials: Any = None  # the library's, created once

    async def fetch(self, request: UpstreamRequest, http: UpstreamClient) -> tuple[str, float]:
        """See TokenAuthorizer."""
        return await asyncio.to_thread(self._fetched, request.transport)

    def _fetched(self, transport: Transport | None) -> tuple[str, float]:
        """Return token and validity. Blocks; run by one thread at a time."""
        try:
            from google.auth.transport.requests import Request
            from requests import Session
        except ImportError as error:
            raise CredentialsUnavailable(
                f"google-service-account needs google-auth: {GOOGLE_EXTRA}"
            ) from error
        try:
            if self._credentials is None:
                self._credentials = _credentials(self._spec, self._obtained)
            with Session() as session:
                ways = {"timeout": REQUEST_SECONDS, "proxies": _proxies(transport)}
                self._credentials.refresh(partial(Request(session), **ways))
        except Exception as error:  # any error of the library
            raise CredentialsUnavailable(f"google-service-account: {error}") from error
        ends = self._credentials.expiry  # UTC, without a zone
        seconds = UNKNOWN_SECONDS
        if ends is not None:
            seconds = ends.replace(tzinfo=UTC).timestamp() - self._now()
        return self._credentials.token, seconds


def _credentials(spec: GoogleSpec, obtained: ObtainedSecrets) -> Any:
    """Return the library's credentials. Raises its errors, OSError and ValueError."""
    import google.auth
    from google.auth import identity_pool
    from google.oauth2 import credentials, service_account

    scopes = [spec.scope]
    if not spec.info and not spec.file:
        return google.auth.default(scopes=scopes)[0]
    text: str | bytes = spec.info
    if not text:
        text = read_regular(spec.file)
    info = google_info(text)
    obtained.add("key file", *google_secrets(info))
    # Each type by name: a type of the library's could name a program to run.
    by_type: dict[str, Any] = {
        "service_account": service_account.Credentials.from_service_account_info,
        "external_account": identity_pool.Credentials.from_info,
        "authorized_user": credentials.Credentials.from_authorized_user_info,
    }
    return by_type[info["type"]](info, scopes=scopes)


def _proxies(transport: Transport | None) -> dict[str, str] | None:
    """Return the channel's proxy, as an argument of each request: a session's is overridden by the
    environment's."""
    if transport is None or transport.proxy is None:
        return None
    return dict.fromkeys(("http", "https"), transport.proxy.url)


_LOG = EventLog("channels.authorizers")


def authorizer_of(channel: ChannelSpec) -> Authorizer | None:
    """Return the channel's authorizer, if it needs one; it is created once for each channel."""
    spec = channel.authorizer
    if spec is None:
        return None
    found: Authorizer | None = channel.derived.get(authorizer_of)
    if found is None:
        found = channel.derived[authorizer_of] = _made(spec, channel)
    return found


def _made(spec: AuthorizerSpec, channel: ChannelSpec) -> Authorizer:
    def tell(failure: CredentialsUnavailable) -> None:
        _LOG.warning("credentials_unavailable", channel=channel.id, reason=failure.detail)

    if isinstance(spec, AwsSpec):
        return AwsAuthorizer(spec, tell, channel.obtained)
    if isinstance(spec, GoogleSpec):
        return GoogleAuthorizer(spec, tell, channel.obtained)
    return AzureAuthorizer(spec, tell, channel.obtained)
