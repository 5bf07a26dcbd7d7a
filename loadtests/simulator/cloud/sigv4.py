"""Check a request's AWS signature (Signature Version 4), as Amazon describes how it is made.

Raises Refusal with the status, the type and the words that AWS answers with.
"""

from __future__ import annotations

import hmac
import re
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote

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


def secret_of(access_key: str) -> str:
    """The secret that belongs to an access key here."""
    return f"secret-of-{access_key}"


def token_of(access_key: str) -> str:
    """The session's token that belongs to an access key here."""
    return f"token-of-{access_key}"


def signed_by(exchange: Exchange, *, now: float, service: str = "bedrock") -> str:
    """The access key that a request is signed with; raises Refusal."""
    header = exchange.header(b"authorization").decode("latin-1")
    found = _AUTHORIZATION.fullmatch(header)
    if found is None:
        raise refused(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
    access_key, day, region, named, names, signature = found.groups()
    signed = names.split(";")
    stamp = exchange.header(b"x-amz-date").decode("latin-1")
    _check_names(exchange, signed)
    if access_key.startswith("EXPIRED"):
        raise refused(
            403,
            "ExpiredTokenException",
            "The security token included in the request is expired",
        )
    if named != service or not stamp.startswith(day):
        raise refused(403, "InvalidSignatureException", f"It should be scoped to {service}.")
    _check_time(stamp, now)
    _check_token(exchange, access_key)
    canonical = _canonical(exchange, signed)
    scope = f"{day}/{region}/{named}/aws4_request"
    digest = sha256(canonical.encode("latin-1")).hexdigest()
    text = "\n".join((ALGORITHM, stamp, scope, digest))
    key = f"AWS4{secret_of(access_key)}".encode()
    for part in (day, region, named, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    expected = hmac.digest(key, text.encode(), "sha256").hex()
    if not hmac.compare_digest(expected, signature):
        raise refused(
            403,
            "InvalidSignatureException",
            "The request signature we calculated does not match the signature you provided. Check "
            "your AWS Secret Access Key and signing method. Consult the service documentation for "
            f"details. The Canonical String for this request should have been '{canonical}'",
        )
    return access_key


def _check_names(exchange: Exchange, signed: list[str]) -> None:
    """What has to be signed is: the host, the type, and all that is Amazon's."""
    names = {name.decode("latin-1").lower() for name, _ in exchange.headers}
    needed = {"host"} | {name for name in names if name.startswith("x-amz-")}
    needed |= names & {"content-type"}
    missing = sorted(needed - set(signed))
    if missing or signed != sorted(signed):
        raise refused(
            403, "InvalidSignatureException", f"{', '.join(missing)} must be a signed header."
        )


def _check_time(stamp: str, now: float) -> None:
    try:
        at = datetime.strptime(stamp, _TIMESTAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise refused(403, "IncompleteSignatureException", "Date must be in ISO-8601.") from None
    if abs(at - now) > SKEW_SECONDS:
        here = datetime.fromtimestamp(now, UTC).strftime(_TIMESTAMP)
        word = "expired" if at < now else "not yet current"
        raise refused(403, "InvalidSignatureException", f"Signature {word}: {stamp} against {here}")


def _check_token(exchange: Exchange, access_key: str) -> None:
    token = exchange.header(b"x-amz-security-token").decode("latin-1")
    expected = token_of(access_key) if access_key.startswith(LENT_PREFIX) else ""
    if token != expected:
        raise refused(
            403,
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
        )


def _canonical(exchange: Exchange, signed: list[str]) -> str:
    """The canonical request: its path is encoded once more than it came."""
    path = "/".join(quote(part, safe="-_.~") for part in exchange.path.split("/"))
    pairs = [pair.partition("=") for pair in exchange.query.split("&") if pair]
    query = "&".join(
        f"{name}={value}"
        for name, value in sorted(
            (quote(unquote(name), safe="-_.~"), quote(unquote(value), safe="-_.~"))
            for name, _, value in pairs
        )
    )
    headers = "".join(
        f"{name}:{' '.join(exchange.header(name.encode()).decode('latin-1').split())}\n"
        for name in signed
    )
    payload = sha256(exchange.body).hexdigest()
    stated = exchange.header(b"x-amz-content-sha256").decode("latin-1")
    if stated not in ("", payload):
        raise refused(
            400, "InvalidSignatureException", "The provided x-amz-content-sha256 does not match."
        )
    return "\n".join((exchange.method, path, query, headers, ";".join(signed), payload))
