"""Credentials of a channel other than a key: the members of each method, and their authorizer.

Missing members are reported here; `check_credentials` checks that key files can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from channels.authorizers import aws, google, specs
from channels.files import read_regular
from gw.config import readers
from gw.config.addresses import public_url
from gw.config.config import Config
from gw.config.faults import ConfigFaults, Fault, Location
from gw.config.keys import key, record_of, secret_text
from gw.config.mappings import Section
from gw.config.nodes import Node, Scalar, described
from gw.config.transport import check_client_certificates

KEY_FILE_ALLOWED = "the text of a service account's key file, JSON with a type"
# Such a file has some 2400 characters.
KEY_FILE_CHARACTERS_MAX = 64 * 1024


def _key_file_text() -> readers.Reader[str]:
    """Read the text of a key file, which has several lines and is never reported."""

    def read(node: Node, at: Location) -> str:
        value = node.text if isinstance(node, Scalar) and not node.is_nothing else ""
        if not isinstance(node, Scalar) or len(value) > KEY_FILE_CHARACTERS_MAX:
            raise readers.InvalidValue(found=described(node, hidden=True), allowed=KEY_FILE_ALLOWED)
        try:
            specs.google_info(value)
        except ValueError as error:
            raise readers.InvalidValue(
                found=f"text (not shown) that is {error}", allowed=KEY_FILE_ALLOWED
            ) from None
        return value

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsCredentials:
    """A signature; without a pair of keys it is found as AWS's library does."""

    access_key_id: str = secret_text("the id of an access key")
    """The id of an access key."""
    secret_access_key: str = secret_text("the secret of an access key")
    """Its secret."""
    session_token: str = secret_text("the session's token")
    """The token of a temporary pair."""
    profile: str = key(readers.text(may_be_empty=True), "")
    """A profile of the machine's files, in place of a pair."""
    service: str = key(readers.text("a service, as AWS signs for it"), specs.AWS_SERVICE)
    """The service that is signed for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleCredentials:
    """A token of a service account; without a key file that of the machine."""

    file: str = key(readers.file(), "")
    """Its key file."""
    info: str = key(_key_file_text(), "", name="json", is_secret=True)
    """The text of one, in its place."""
    scope: str = key(readers.text("a scope"), specs.GOOGLE_SCOPE)
    """What the token is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureCredentials:
    """A token of an application of Entra ID, by its secret or a federated token."""

    tenant_id: str = key(readers.text("the tenant's id", may_be_empty=True), "")
    """The tenant; required."""
    client_id: str = key(readers.text("the application's id", may_be_empty=True), "")
    """The application; required."""
    client_secret: str = secret_text("the application's secret")
    """Its secret."""
    token_file: str = key(readers.file(), "")
    """The file of its federated token, in place of a secret."""
    scope: str = key(readers.text("a scope"), specs.AZURE_SCOPE)
    """What the token is for."""
    authority: str = key(public_url(), specs.AZURE_AUTHORITY)
    """Who issues it."""


# By the method of `auth`.
CREDENTIALS: Mapping[str, type[AwsCredentials | GoogleCredentials | AzureCredentials]] = {
    specs.AWS_SIGV4: AwsCredentials,
    specs.GOOGLE_SERVICE_ACCOUNT: GoogleCredentials,
    specs.AZURE_AD: AzureCredentials,
}


def check_credentials_of(channel: Section, way: str) -> None:
    """Check that the credentials of one channel are complete."""
    credentials = channel.get("credentials")
    if credentials is None:
        return
    _CHECKS[way](credentials)


def _check_aws(credentials: Section) -> None:
    pair = ("access_key_id", "secret_access_key")
    for name, other in (pair, pair[::-1]):
        if credentials.get(name) and credentials.get(other) == "":
            credentials.location(other).blame(found="nothing", allowed=f"one with {name}")
    if credentials.get("session_token") and credentials.get("access_key_id") == "":
        credentials.location("session_token").blame(
            found="a session's token alone", allowed="one with its access_key_id, or none"
        )
    if credentials.get("profile") and credentials.get("access_key_id"):
        credentials.location("profile").blame(
            found="a profile, and an access_key_id", allowed="one of them"
        )


def _check_google(credentials: Section) -> None:
    if credentials.get("file") and credentials.get("json"):
        credentials.location("json").blame(found="json, and a file", allowed="one of them")


def _check_azure(credentials: Section) -> None:
    for name in ("tenant_id", "client_id"):
        if credentials.get(name) == "":
            credentials.location(name).blame(found="nothing", allowed="a text, with azure-ad")
    given = [name for name in ("client_secret", "token_file") if credentials.get(name)]
    if len(given) != 1 and {"client_secret", "token_file"} <= credentials.values.keys():
        credentials.at.blame(
            found=" and ".join(given) or "nothing that proves the application",
            allowed="either client_secret or token_file",
            hint="" if given else "token_file: ${AZURE_FEDERATED_TOKEN_FILE} where there is one",
        )


_CHECKS: Mapping[str, Callable[[Section], None]] = {
    specs.AWS_SIGV4: _check_aws,
    specs.GOOGLE_SERVICE_ACCOUNT: _check_google,
    specs.AZURE_AD: _check_azure,
}


def authorizer_spec(
    way: str | None, region: str | None, credentials: Section | None, folder: Path
) -> specs.AuthorizerSpec | None:
    """Return the authorizer of a channel; None for a key. Relative paths start at `folder`."""
    if way is None or way not in CREDENTIALS or credentials is None:
        return None
    given = record_of(CREDENTIALS[way], credentials)
    if isinstance(given, AwsCredentials):
        return specs.AwsSpec(region=region or "", **asdict(given))
    if isinstance(given, GoogleCredentials):
        return specs.GoogleSpec(placed(given.file, folder), given.info, given.scope)
    return specs.AzureSpec(**{**asdict(given), "token_file": placed(given.token_file, folder)})


def check_files(config: Config) -> None:
    """Read the files named by channels. Raises ConfigFaults, with all faults of one kind."""
    check_client_certificates(config)
    check_credentials(config)


def check_credentials(config: Config) -> None:
    """Check key files and signing packages. Raises ConfigFaults, with all faults."""
    faults = []
    for index, channel in enumerate(config.registry.channels.values()):
        found, allowed = _unusable(channel.authorizer)
        if found:
            faults.append(Fault(str(config.source), f"channels[{index}]", found, allowed))
    if faults:
        raise ConfigFaults(faults)


def _unusable(spec: specs.AuthorizerSpec | None) -> tuple[str, str]:
    """Return the fault and the allowed values; empty without a fault."""
    if isinstance(spec, specs.AwsSpec) and find_spec("botocore") is None:
        return f"auth: {specs.AWS_SIGV4} without its library", aws.AWS_EXTRA
    if isinstance(spec, specs.GoogleSpec):
        if any(find_spec(name) is None for name in ("google", "google.auth", "requests")):
            return f"auth: {specs.GOOGLE_SERVICE_ACCOUNT} without its library", google.GOOGLE_EXTRA
        if spec.file:
            try:
                specs.google_info(read_regular(spec.file))
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                return f"{spec.file}: {reason}", "the key file of a service account"
    return "", ""


def placed(path: str, folder: Path) -> str:
    """Return a path of the file, which may be relative to `folder`; empty for none."""
    return str(folder / path) if path else ""
