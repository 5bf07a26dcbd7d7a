"""The certificate of the public listener: what servers need of it, and every fault it may have.

The files are read here and not with the configuration, because commands that serve no client may
not be allowed to read the key.
"""

from __future__ import annotations

import ssl

from gw.config.config import Certificate, Config
from gw.config.faults import ConfigFaults, Fault


def server_context(config: Config) -> ssl.SSLContext | None:
    """What a server needs to speak TLS; None where it is to speak plain HTTP.

    Raises ConfigFaults.
    """
    if config.tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # TLS 1.2 and later
    context.set_alpn_protocols(["http/1.1"])
    _load(context, config, config.tls)
    return context


def renew(context: ssl.SSLContext | None, config: Config) -> None:
    """Show another certificate from now on, to connections made from now on; None shows none.

    Raises ConfigFaults, and the old one stays.
    """
    if context is None or config.tls is None:
        return
    server_context(config)  # one of its own first, so that a fault leaves this one as it was
    _load(context, config, config.tls)


def _load(context: ssl.SSLContext, config: Config, tls: Certificate) -> None:
    file = str(config.source)
    for name, path in (("certificate", tls.chain), ("key", tls.key)):
        try:
            path.open("rb").close()
        except OSError as error:
            found = f"{path}: {(error.strerror or str(error)).lower()}"
            allowed = "a file that can be read"
            raise ConfigFaults([Fault(file, f"tls.{name}", found, allowed)]) from None
    try:
        context.load_cert_chain(tls.chain, tls.key, password="")  # never ask at the terminal
    except (ssl.SSLError, ValueError) as error:
        found = f"what is none ({getattr(error, 'reason', None) or error})"
        allowed = "a chain of certificates and the key of its first, PEM, without a password"
        raise ConfigFaults([Fault(file, "tls", found, allowed)]) from None
