"""The certificate of the public listener, and its faults.

The files are read here and not with the configuration, because commands that serve no client may
lack permission to read the key.
"""

from __future__ import annotations

import ssl

from cryptography import x509

from channels.files import check_regular, read_regular
from gw.config.config import Certificate, Config
from gw.config.faults import ConfigFaults, Fault


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
