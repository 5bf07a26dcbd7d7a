"""Who may ask a cloud: AWS's signatures (Signature Version 4), tokens of Google and of Entra ID.

Signatures are checked as Amazon describes how they are made; `signed_by` raises Refusal with the
status, the type and the words that AWS answers with. Tokens are known again until they expire.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from loadtests.simulator.ask import Refusal
from loadtests.simulator.exchange import Exchange

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SKEW_SECONDS: Final = 300.0
LENT_PREFIX: Final = "ASIA"  # of keys that come with a session's token

_AUTHORIZATION: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([A-Z0-9]+)/(\d{8})/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request, "
    r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})"
)
_TIMESTAMP: Final = "%Y%m%dT%H%M%SZ"


def refused(status: int, kind: str, message: str) -> Refusal:
    """A refusal of AWS, whose type is in a header."""
    return Refusal(status, message, lines=b"x-amzn-ErrorType: %b\r\n" % kind.encode())


def signed_by(exchange: Exchange, *, now: float, service: str = "bedrock") -> str:
    """The access key that a request is signed with; raises Refusal."""
    found = _AUTHORIZATION.fullmatch(exchange.header(b"authorization").decode("latin-1"))
    if found is None:
        raise refused(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
    access_key, day, region, named, names, signature = found.groups()
    signed = names.split(";")
    stamp = exchange.header(b"x-amz-date").decode("latin-1")
    # What has to be signed is: the host, the type, and all that is Amazon's.
    sent = {name.decode("latin-1").lower() for name, _ in exchange.headers}
    needed = {name for name in sent if name.startswith("x-amz-")} | (sent & {"content-type"})
    missing = sorted((needed | {"host"}) - set(signed))
    if missing or signed != sorted(signed):
        raise _bad(f"{', '.join(missing)} must be a signed header.")
    if access_key.startswith("EXPIRED"):
        expired = "The security token included in the request is expired"
        raise refused(403, "ExpiredTokenException", expired)
    if named != service or not stamp.startswith(day):
        raise _bad(f"It should be scoped to {service}.")
    _check_time(stamp, now)
    token = f"token-of-{access_key}" if access_key.startswith(LENT_PREFIX) else ""
    if exchange.header(b"x-amz-security-token").decode("latin-1") != token:
        invalid = "The security token included in the request is invalid."
        raise refused(403, "UnrecognizedClientException", invalid)
    canonical = _canonical(exchange, signed)
    digest = sha256(canonical.encode("latin-1")).hexdigest()
    text = f"{ALGORITHM}\n{stamp}\n{day}/{region}/{named}/aws4_request\n{digest}"
    key = f"AWS4secret-of-{access_key}".encode()
    for part in (day, region, named, "aws4_request", text):
        key = hmac.digest(key, part.encode(), "sha256")
    if not hmac.compare_digest(key.hex(), signature):
        raise _bad(
            "The request signature we calculated does not match the signature you provided. Check "
            "your AWS Secret Access Key and signing method. Consult the service documentation for "
            f"details. The Canonical String for this request should have been '{canonical}'"
        )
    return access_key


def _bad(message: str) -> Refusal:
    return refused(403, "InvalidSignatureException", message)


def _check_time(stamp: str, now: float) -> None:
    try:
        at = datetime.strptime(stamp, _TIMESTAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise refused(403, "IncompleteSignatureException", "Date must be in ISO-8601.") from None
    if abs(at - now) > SKEW_SECONDS:
        here = datetime.fromtimestamp(now, UTC).strftime(_TIMESTAMP)
        word = "expired" if at < now else "not yet current"
        raise _bad(f"Signature {word}: {stamp} against {here}")


def _canonical(exchange: Exchange, signed: list[str]) -> str:
    """The canonical request: its path is encoded once more than it came."""
    path = "/".join(quote(part, safe="-_.~") for part in exchange.path.split("/"))
    pairs = (pair.partition("=") for pair in exchange.query.split("&") if pair)
    spelled = (
        (quote(unquote(name), safe="-_.~"), quote(unquote(value), safe="-_.~"))
        for name, _, value in pairs
    )
    query = "&".join(f"{name}={value}" for name, value in sorted(spelled))
    headers = "".join(
        f"{name}:{' '.join(exchange.header(name.encode()).decode('latin-1').split())}\n"
        for name in signed
    )
    payload = sha256(exchange.body).hexdigest()
    if exchange.header(b"x-amz-content-sha256").decode("latin-1") not in ("", payload):
        unequal = "The provided x-amz-content-sha256 does not match."
        raise refused(400, "InvalidSignatureException", unequal)
    return "\n".join((exchange.method, path, query, headers, ";".join(signed), payload))


TOKEN_SECONDS: Final = 3600
TOKENS_MAX: Final = 1000  # remembered, the newest
GOOGLE_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
GOOGLE_ACCOUNT: Final = "gateway@sim-project.iam.gserviceaccount.com"
ENTRA_PREFIX: Final = "eyJ0eXAi.c2lt"
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class TokenRefusal(Refusal):
    """No token: the OAuth error and its description."""

    def __init__(self, error: str, description: str) -> None:
        result = {"error": error, "error_description": description}
        status = 401 if error == "invalid_client" else 400
        super().__init__(status, description, body=msgspec.json.encode(result))


def client_of(exchange: Exchange) -> str:
    """The application that a request for a token of Entra ID is from."""
    return dict(parse_qsl(exchange.body.decode("latin-1"))).get("client_id", "")


class Issuer:
    """Both token endpoints. `seconds` is what a token is good for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.seconds = float(TOKEN_SECONDS)
        self._owners: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._count = 0

    @cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def google_key(self, base_url: str) -> dict[str, str]:
        """The key file of the service account, whose tokens come from here."""
        pem = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return {
            "type": "service_account",
            "project_id": "sim-project",
            "private_key_id": "0123456789abcdef0123456789abcdef01234567",
            "private_key": pem.decode(),
            "client_email": GOOGLE_ACCOUNT,
            "client_id": "100000000000000000001",
            "token_uri": f"{base_url}/token",
        }

    def google(self, exchange: Exchange) -> dict[str, Any]:
        """A token for a signed assertion; raises TokenRefusal."""
        form = dict(parse_qsl(exchange.body.decode("latin-1")))
        if form.get("grant_type") != GOOGLE_GRANT:
            raise TokenRefusal("unsupported_grant_type", "Invalid grant_type")
        claims = self._claims(form.get("assertion", ""))
        now = self._clock()
        if not now - 300 <= claims.get("iat", 0) <= now + 300 or claims.get("exp", 0) < now:
            raise TokenRefusal(
                "invalid_grant",
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable "
                "timeframe. Check your iat and exp values in the JWT claim.",
            )
        if claims.get("iss") != GOOGLE_ACCOUNT or not claims.get("scope"):
            raise TokenRefusal("invalid_grant", "Invalid grant: account not found")
        return self._issued(GOOGLE_ACCOUNT, "ya29.sim")

    def entra(self, exchange: Exchange) -> dict[str, Any]:
        """A token for an application; raises TokenRefusal."""
        form = dict(parse_qsl(exchange.body.decode("latin-1")))
        client = form.get("client_id", "")
        if form.get("grant_type") != "client_credentials" or not form.get("scope"):
            raise TokenRefusal("invalid_request", "AADSTS900144: a parameter is missing")
        if "client_assertion" in form:
            is_known = form["client_assertion"] == f"assertion-of-{client}"
            is_known = is_known and form.get("client_assertion_type") == ASSERTION_TYPE
        else:
            is_known = form.get("client_secret") == f"secret-of-{client}"
        if not is_known:
            raise TokenRefusal(
                "invalid_client", "AADSTS7000215: Invalid client secret provided. Trace ID: 0-0"
            )
        return self._issued(client, ENTRA_PREFIX)

    def owner(self, exchange: Exchange) -> str | None:
        """Whose token a request has; None without one that is good."""
        owner, ends = self._owners.get(exchange.bearer, ("", 0.0))
        return owner if self._clock() < ends else None

    def withdraw(self) -> None:
        """Take every token back."""
        self._owners.clear()

    def _issued(self, owner: str, prefix: str) -> dict[str, Any]:
        self._count += 1
        token = f"{prefix}-{self._count}-of-{owner.partition('@')[0]}"
        self._owners[token] = (owner, self._clock() + self.seconds)
        while len(self._owners) > TOKENS_MAX:
            self._owners.popitem(last=False)
        return {"access_token": token, "expires_in": int(self.seconds), "token_type": "Bearer"}

    def _claims(self, assertion: str) -> dict[str, Any]:
        signed, _, signature = assertion.rpartition(".")
        try:
            self._key.public_key().verify(
                _unquoted(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256()
            )
            claims: dict[str, Any] = msgspec.json.decode(_unquoted(signed.partition(".")[2]))
        except (InvalidSignature, binascii.Error, msgspec.DecodeError):
            raise TokenRefusal("invalid_grant", "Invalid JWT Signature.") from None
        return claims


def _unquoted(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
