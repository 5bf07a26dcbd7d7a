"""Hands out the tokens of Google and of Entra ID, and knows them again until they expire."""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from loadtests.simulator.exchange import Exchange

TOKEN_SECONDS: Final = 3600
TOKENS_MAX: Final = 1000  # remembered, the newest
GOOGLE_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
GOOGLE_ACCOUNT: Final = "gateway@sim-project.iam.gserviceaccount.com"
ENTRA_PREFIX: Final = b"eyJ0eXAi.c2lt"
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class TokenRefusal(Exception):
    """No token: the OAuth error and its description."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error
        self.description = description


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
        return self._issued(client, ENTRA_PREFIX.decode())

    def owner(self, exchange: Exchange) -> str | None:
        """Whose token a request has; None without one that is good."""
        scheme, _, token = exchange.header(b"authorization").decode("latin-1").partition(" ")
        owner, ends = self._owners.get(token, ("", 0.0))
        return owner if scheme == "Bearer" and self._clock() < ends else None

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
