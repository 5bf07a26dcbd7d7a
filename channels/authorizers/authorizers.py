"""The authorizers of channels, one per channel, created from its configuration (`specs.py`)."""

from __future__ import annotations

from channels.authorizers.aws import AwsAuthorizer
from channels.authorizers.azure import AzureAuthorizer
from channels.authorizers.google import GoogleAuthorizer
from channels.authorizers.specs import AuthorizerSpec, AwsSpec, GoogleSpec
from channels.errors import CredentialsUnavailable
from channels.http.interfaces import Authorizer
from channels.registry import ChannelSpec
from metrics.logs import EventLog

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
