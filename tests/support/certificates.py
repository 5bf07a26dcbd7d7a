"""A certificate that signs itself, made for one run, and the TLS settings that go with it."""

import datetime
import ssl
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def pem_files(name: str, *, days: int = 1) -> tuple[bytes, bytes]:
    """The certificate of a server called `name`, valid for so many days, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def trusting(certificate: bytes) -> ssl.SSLContext:
    """A client that trusts this certificate alone, and checks the name."""
    return ssl.create_default_context(cadata=certificate.decode())


@cache
def contexts(name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For a server called `name`, and for a client that trusts it and checks the name."""
    certificate, key = pem_files(name)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        path = Path(folder, "server.pem")
        path.write_bytes(key + certificate)
        server.load_cert_chain(path)
    return server, trusting(certificate)
