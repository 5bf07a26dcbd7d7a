"""Credentials of a channel other than a key: the members of each method, and their authorizer.

Missing members are reported here; `check_credentials` checks that key files can be read.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from cryptography import x509

from channels.authorizers import authorizers
from channels.authorizers.specs import (
    AWS_SERVICE,
    AWS_SIGV4,
    AZURE_AD,
    AZURE_AUTHORITY,
    AZURE_SCOPE,
    GOOGLE_SCOPE,
    GOOGLE_SERVICE_ACCOUNT,
    AuthorizerSpec,
    AwsSpec,
    AzureSpec,
    GoogleSpec,
    google_info,
)
from channels.files import check_regular, read_regular
from channels.http.transport import Proxy, Transport
from gw.config.config import Certificate, Config
from gw.config.readers import (
    ConfigFaults,
    Fault,
    InvalidValue,
    Location,
    Node,
    Reader,
    Scalar,
    described,
    file,
    text,
)
from gw.config.upstream import PROXY_ALLOWED, is_proxy
from gw.config.values import Key, Schema, Section, public_url

# The transport of channels: proxies of the file and of the environment, certificates.
#
# The files are read here and not with the configuration, like those of the public listener below.

PROXY_VARIABLES = ("https_proxy", "HTTPS_PROXY")
NO_PROXY_VARIABLES = ("no_proxy", "NO_PROXY")


def check_proxies(channels: Sequence[Section], environ: Mapping[str, str]) -> None:
    """Check that the environment's proxy is valid, if a channel uses it."""
    for channel in channels:
        if "proxy" not in channel.values or "base_url" not in channel.values:
            continue
        if channel.values["proxy"] is not None:
            continue
        if (url := _of_environment(channel.values["base_url"], environ)) and not is_proxy(url):
            channel.location("proxy").blame(
                found=f"{PROXY_VARIABLES[1]} in the environment (not shown), which is none",
                allowed=PROXY_ALLOWED,
            )
            return  # one report is enough


def transport_of(
    values: Mapping[str, Any], folder: Path, environ: Mapping[str, str]
) -> Transport | None:
    """Return a channel's transport, or None for the default. Relative paths start at `folder`."""
    url = values["proxy"]
    if url is None:
        url = _of_environment(values["base_url"], environ)
    certificate = values["client_certificate"].values
    transport = Transport(
        Proxy.of(url) if url else None,
        *(
            str(folder / path) if path else ""
            for path in (values["ca_file"], certificate["certificate"], certificate["key"])
        ),
    )
    return None if transport == Transport() else transport


def check_certificates(config: Config) -> None:
    """Read the certificates of channels. Raises ConfigFaults, with all faults."""
    faults = []
    for index, channel in enumerate(config.registry.channels.values()):
        transport = channel.transport
        if transport is None or not (transport.ca_file or transport.certificate):
            continue
        try:
            transport.tls_context()
        except (OSError, ValueError) as error:
            files = (transport.ca_file, transport.certificate, transport.key)
            # The reason of TLS or of the system, in words if there are any.
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            faults.append(
                Fault(
                    str(config.source),
                    f"channels[{index}]",
                    f"{', '.join(filter(None, files))}: {reason}",
                    "ca_file and client_certificate in PEM, a key without a password",
                )
            )
    if faults:
        raise ConfigFaults(faults)


def _of_environment(base_url: str, environ: Mapping[str, str]) -> str:
    """Return the environment's proxy for an address, or an empty text."""
    parts = urlsplit(base_url)
    if parts.scheme != "https":
        return ""
    spared = next((environ[name] for name in NO_PROXY_VARIABLES if environ.get(name)), "")
    if any(_is_spared(parts, entry.strip().lower()) for entry in spared.split(",")):
        return ""
    return next((environ[name] for name in PROXY_VARIABLES if environ.get(name)), "")


def _is_spared(parts: SplitResult, entry: str) -> bool:
    """Whether an entry of NO_PROXY matches a host: its name or a parent domain, and its port."""
    host = parts.hostname or ""
    port = parts.port or 443
    name = entry.removesuffix(f":{port}").strip("[]").lstrip(".")
    return entry == "*" or (bool(name) and (host == name or host.endswith(f".{name}")))


KEY_FILE_ALLOWED = "the text of a service account's key file, JSON with a type"
# Such a file has some 2400 characters.
KEY_FILE_CHARACTERS_MAX = 64 * 1024


def _key_file_text() -> Reader[str]:
    """Read the text of a key file, which has several lines and is never reported."""

    def read(node: Node, at: Location) -> str:
        value = node.text if isinstance(node, Scalar) and not node.is_nothing else ""
        if not isinstance(node, Scalar) or len(value) > KEY_FILE_CHARACTERS_MAX:
            raise InvalidValue(found=described(node, hidden=True), allowed=KEY_FILE_ALLOWED)
        try:
            google_info(value)
        except ValueError as error:
            raise InvalidValue(
                found=f"text (not shown) that is {error}", allowed=KEY_FILE_ALLOWED
            ) from None
        return value

    return read


def _secret(what: str) -> Key:
    return Key(text(what, may_be_empty=True, secret=True), "")


# By the method of `auth`; absent members are found where the provider's libraries look for them.
CREDENTIALS: Mapping[str, Schema] = {
    AWS_SIGV4: {
        "access_key_id": _secret("the id of an access key"),
        "secret_access_key": _secret("the secret of an access key"),
        "session_token": _secret("the session's token"),
        "profile": Key(text(may_be_empty=True), ""),
        "service": Key(text("a service, as AWS signs for it"), AWS_SERVICE),
    },
    GOOGLE_SERVICE_ACCOUNT: {
        "file": Key(file(), ""),
        "json": Key(_key_file_text(), ""),
        "scope": Key(text("a scope"), GOOGLE_SCOPE),
    },
    AZURE_AD: {
        "tenant_id": Key(text("the tenant's id", may_be_empty=True), ""),
        "client_id": Key(text("the application's id", may_be_empty=True), ""),
        "client_secret": _secret("the application's secret"),
        "token_file": Key(file(), ""),
        "scope": Key(text("a scope"), AZURE_SCOPE),
        "authority": Key(public_url(), AZURE_AUTHORITY),
    },
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
    AWS_SIGV4: _check_aws,
    GOOGLE_SERVICE_ACCOUNT: _check_google,
    AZURE_AD: _check_azure,
}


def authorizer_spec(values: Mapping[str, Any], folder: Path) -> AuthorizerSpec | None:
    """Return the authorizer of a channel; None for a key. Relative paths start at `folder`."""
    way = values["auth"]
    if way not in CREDENTIALS:
        return None
    given = values["credentials"].values
    if way == AWS_SIGV4:
        return AwsSpec(region=values["region"], **given)
    if way == GOOGLE_SERVICE_ACCOUNT:
        return GoogleSpec(_placed(given["file"], folder), given["json"], given["scope"])
    return AzureSpec(**{**given, "token_file": _placed(given["token_file"], folder)})


def check_files(config: Config) -> None:
    """Read the files named by channels. Raises ConfigFaults, with all faults of one kind."""
    check_certificates(config)
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


def _unusable(spec: AuthorizerSpec | None) -> tuple[str, str]:
    """Return the fault and the allowed values; empty without a fault."""
    if isinstance(spec, AwsSpec) and find_spec("botocore") is None:
        return f"auth: {AWS_SIGV4} without its library", authorizers.AWS_EXTRA
    if isinstance(spec, GoogleSpec):
        if any(find_spec(name) is None for name in ("google", "google.auth", "requests")):
            return f"auth: {GOOGLE_SERVICE_ACCOUNT} without its library", authorizers.GOOGLE_EXTRA
        if spec.file:
            try:
                google_info(read_regular(spec.file))
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                return f"{spec.file}: {reason}", "the key file of a service account"
    return "", ""


def _placed(path: str, folder: Path) -> str:
    return str(folder / path) if path else ""


# The certificate of the public listener, and its faults.
#
# The files are read here and not with the configuration, because commands that serve no client may
# lack permission to read the key.


def server_context(config: Config) -> ssl.SSLContext | None:
    """Return the TLS context of a server; None for plain HTTP.

    Raises ConfigFaults.
    """
    if config.tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # TLS 1.2 and later
    context.set_alpn_protocols(["http/1.1"])
    _load(context, config, config.tls)
    return context


def renew(context: ssl.SSLContext | None, config: Config) -> None:
    """Use another certificate for new connections; does nothing without TLS.

    Raises ConfigFaults, and keeps the old certificate.
    """
    if context is None or config.tls is None:
        return
    server_context(config)  # in its own context first, so that a fault does not change this one
    _load(context, config, config.tls)


def expires_at(config: Config) -> float:
    """Return the Unix time at which the first certificate of the chain expires; 0 without TLS.

    Also 0 for a chain that OpenSSL accepts and that cannot be parsed as X.509 here: an unknown date
    refuses no certificate.
    """
    if config.tls is None:
        return 0.0
    try:
        chain = x509.load_pem_x509_certificates(read_regular(config.tls.chain))
    except (OSError, ValueError):
        return 0.0
    return min(one.not_valid_after_utc.timestamp() for one in chain)


def _load(context: ssl.SSLContext, config: Config, tls: Certificate) -> None:
    file = str(config.source)
    for name, path in (("certificate", tls.chain), ("key", tls.key)):
        try:
            check_regular(path)
        except OSError as error:
            found = f"{path}: {(error.strerror or str(error)).lower()}"
            allowed = "a file that can be read"
            raise ConfigFaults([Fault(file, f"tls.{name}", found, allowed)]) from None
    try:
        context.load_cert_chain(tls.chain, tls.key, password="")  # no prompt at the terminal
    except (ssl.SSLError, ValueError) as error:
        found = f"what is none ({getattr(error, 'reason', None) or error})"
        allowed = "a chain of certificates and the key of its first, PEM, without a password"
        raise ConfigFaults([Fault(file, "tls", found, allowed)]) from None
