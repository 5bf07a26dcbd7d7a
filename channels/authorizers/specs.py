"""The settings of credentials other than a key: one record per scheme.

Empty texts select the provider's defaults: environment, profiles, the machine's identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

AWS_SIGV4 = "aws-sigv4"
GOOGLE_SERVICE_ACCOUNT = "google-service-account"
AZURE_AD = "azure-ad"

AWS_SERVICE = "bedrock"
GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
GOOGLE_TYPES = ("service_account", "external_account", "authorized_user")
AZURE_SCOPE = "https://cognitiveservices.azure.com/.default"
AZURE_AUTHORITY = "https://login.microsoftonline.com"


@dataclass(frozen=True, slots=True)
class AwsSpec:
    """Requests are signed (Signature Version 4), for one service in one region."""

    region: str
    service: str = AWS_SERVICE
    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    profile: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets among these."""
        return _filled(self.access_key_id, self.secret_access_key, self.session_token)


@dataclass(frozen=True, slots=True)
class GoogleSpec:
    """A token of a service account, or of another type that Google's library supports.

    `file`: its key file; `info`: the content of one; with neither, the application's defaults.
    """

    file: str = ""
    info: str = field(default="", repr=False)
    scope: str = GOOGLE_SCOPE

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of the key in the configuration."""
        return google_secrets(google_info(self.info)) if self.info else ()


@dataclass(frozen=True, slots=True)
class AzureSpec:
    """A token of an application, by its secret or by a federated token in a file."""

    tenant_id: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    token_file: str = ""
    scope: str = AZURE_SCOPE
    authority: str = AZURE_AUTHORITY

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets among these."""
        return _filled(self.client_secret)


AuthorizerSpec: TypeAlias = AwsSpec | GoogleSpec | AzureSpec


def google_info(text: str | bytes) -> dict[str, Any]:
    """Return the members of a key file. Raises ValueError for an invalid one."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(value, dict) or value.get("type") not in GOOGLE_TYPES:
        raise ValueError(f"no JSON object with a type of {', '.join(GOOGLE_TYPES)}")
    return value


def google_secrets(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the secrets in a key file."""
    names = ("private_key", "private_key_id", "client_secret", "refresh_token")
    return _filled(*(one for name in names if isinstance(one := info.get(name), str)))


def _filled(*texts: str) -> tuple[str, ...]:
    return tuple(filter(None, texts))
