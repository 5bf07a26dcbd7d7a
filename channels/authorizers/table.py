"""Which authorizer a channel has: made once of what its configuration says."""

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
    """The channel's, if it needs one: its state is the channel's for as long as that lives."""
    spec = channel.authorizer
    if spec is None:
        return None
    found: Authorizer | None = channel.made.get(authorizer_of)
    if found is None:
        found = channel.made[authorizer_of] = _made(spec, channel.id)
    return found


def _made(spec: AuthorizerSpec, channel_id: str) -> Authorizer:
    def tell(failure: CredentialsUnavailable) -> None:
        _LOG.warning("credentials_unavailable", channel=channel_id, reason=failure.detail)

    if isinstance(spec, AwsSpec):
        return AwsAuthorizer(spec, tell)
    if isinstance(spec, GoogleSpec):
        return GoogleAuthorizer(spec, tell)
    return AzureAuthorizer(spec, tell)
