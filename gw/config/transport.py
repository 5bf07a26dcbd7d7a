"""The transport of channels: proxies of the file and of the environment, certificates.

The certificates are read here and not with the configuration, like that of the public listener.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import SplitResult, urlsplit

from channels.http.transport import Proxy, Transport
from gw.config.config import Config
from gw.config.faults import ConfigFaults, Fault
from gw.config.mappings import Section
from gw.config.upstream import PROXY_ALLOWED, is_proxy

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
    base_url: str, proxy: str | None, files: Sequence[str], environ: Mapping[str, str]
) -> Transport | None:
    """Return a channel's transport, or None for the default.

    `files`: the authorities that it trusts, its certificate and that one's key; empty for none.
    """
    url = _of_environment(base_url, environ) if proxy is None else proxy
    transport = Transport(Proxy.of(url) if url else None, *files)
    return None if transport == Transport() else transport


def check_client_certificates(config: Config) -> None:
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
