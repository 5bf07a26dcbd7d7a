"""Certificates are changed by a reload, both those the gateway shows and those of its channels.

Connections that are open stay; those made from then on have the new ones; files that cannot be used
are refused, and what was in force stays (`ops/running.md`).
"""

import json
import os
import signal
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509

from loadtests.rig.client import Client
from loadtests.rig.connection import Connection
from loadtests.rig.deployment import A_KNOWN_PORT, Deployment, channel, deployment, model
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.scrape import Admin
from loadtests.rig.waiting import until
from tests.support.certificates import pem_files

pytestmark = pytest.mark.long

NAME = "gateway.example"
EXPIRY = "gw_certificate_expiry_timestamp_seconds"
RESPONSE: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "sim-model",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Ahoy"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}


class Files:
    """The certificates of a gateway and its upstream, as files that can be written anew."""

    def __init__(self, folder: Path) -> None:
        self.chain, self.key = folder / "chain.pem", folder / "key.pem"
        self.upstream, self.own = folder / "upstream.pem", folder / "own.pem"
        self.renew()

    def renew(self, *issuers: bytes, days: int = 1) -> None:
        """Another certificate for each; that of the gateway is valid for so many days."""
        chain, key = pem_files(NAME, days=days)
        self.chain.write_bytes(b"".join((chain, *issuers)))
        self.key.write_bytes(key)
        self.upstream.write_bytes(b"".join(pem_files("localhost")))
        self.own.write_bytes(b"".join(pem_files("client.example")))

    def upstream_context(self) -> ssl.SSLContext:
        """What the upstream shows at the moment, and whom it lets in."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.own)
        context.load_cert_chain(self.upstream)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def trust(self) -> ssl.SSLContext:
        """Whom a client of the gateway trusts at the moment."""
        return ssl.create_default_context(cafile=self.chain)


class Upstream(ThreadingHTTPServer):
    """Answers every chat over TLS, each on a connection of its own, to who shows a certificate."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.context = context
        self.refused: list[str] = []

    def finish_request(self, request: Any, client_address: Any) -> None:
        with self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A handshake that came to nothing."""
        self.refused.append(str(client_address))


class Answering(BaseHTTPRequestHandler):
    """Takes a POST."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(RESPONSE).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr."""


@contextmanager
def served(upstream: Upstream) -> Iterator[Upstream]:
    thread = threading.Thread(target=upstream.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield upstream
    finally:
        upstream.shutdown()
        thread.join()
        upstream.server_close()


def connected(h: Deployment, trust: ssl.SSLContext) -> Connection:
    """A client's connection, which may be kept."""
    connection = Connection(h.gateway.url, trust=trust, server_name=NAME)
    assert connection.opened
    return connection


def shown_by(address: str) -> bytes:
    """The certificate that a listener shows now."""
    parts = urlsplit(address)
    assert parts.scheme == "https", address
    assert parts.hostname is not None
    assert parts.port is not None
    return ssl.get_server_certificate((parts.hostname, parts.port)).encode()


@pytest.mark.parametrize("processes", [1, 2])
def test_every_listener_shows_the_one_certificate(
    postgres: PostgresForTests, tmp_path: Path, processes: int
) -> None:
    files = Files(tmp_path)
    settings: dict[str, Any] = {"tls": {"certificate": str(files.chain), "key": str(files.key)}}
    with (
        postgres.database() as url,
        deployment(
            url, tmp_path, processes=processes, console_listen=A_KNOWN_PORT, **settings
        ) as h,
    ):
        console = f"https://{h.settings['console_listen']}"
        listeners = (h.gateway.url, h.gateway.admin_url, console)
        for days in (1, 9):
            if days != 1:
                files.renew(days=days)
                reload(h, "configuration_reloaded")
            expected = expires_at(files.chain.read_bytes())
            until(
                lambda expected=expected: (
                    {expires_at(shown_by(one)) for one in listeners}  # type: ignore[misc]
                    == {expected}
                ),
                what="the certificate",
            )
        # The parent reads the pages of its workers, which have no certificate of their own.
        assert Admin(h.gateway.admin_url).get("/readyz").status == 200
        assert Admin(h.gateway.admin_url).page().total("gw_http_responses_total") >= 0
        with pytest.raises(ConnectionError):
            Admin(h.gateway.admin_url.replace("https://", "http://")).get("/healthz")


def chat(connection: Connection, h: Deployment) -> int:
    """The status of one call on a connection, which has to be the same all the time."""
    before = connection.opened
    status = Client(h.gateway.url, h.key, connection).chat().status
    assert connection.opened is before
    return status


def expires_at(certificate: bytes) -> float:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()


def reload(h: Deployment, action: str) -> None:
    so_far = len(h.events(action))
    h.gateway.popen.send_signal(signal.SIGHUP)
    until(lambda: len(h.events(action)) > so_far, what=action)


def test_reload_takes_new_certificates_and_drops_no_connection(
    postgres: PostgresForTests, tmp_path: Path
) -> None:
    files = Files(tmp_path)
    with served(Upstream(files.upstream_context())) as upstream, postgres.database() as url:
        secured = channel(
            "secured",
            base_url=f"https://localhost:{upstream.server_port}",
            ca_file=str(files.upstream),
            client_certificate={"certificate": str(files.own), "key": str(files.own)},
        )
        settings: dict[str, Any] = {
            "tls": {"certificate": str(files.chain), "key": str(files.key)},
            "channels": [secured],
            "models": [model("sim-model", "secured")],
        }
        with deployment(url, tmp_path, **settings) as h, connected(h, files.trust()) as early:
            assert chat(early, h) == 200
            old = files.trust()
            admin = Admin(h.gateway.admin_url)
            assert admin.page().total(EXPIRY) == expires_at(files.chain.read_bytes())
            issuer, _ = pem_files("issuer.example", days=3)
            files.renew(issuer, days=9)
            upstream.context = files.upstream_context()
            # Until it is told to, the gateway goes on with what it has read.
            assert chat(early, h) == 502
            with connected(h, old):
                pass
            reload(h, "configuration_reloaded")
            assert chat(early, h) == 200
            assert admin.page().total(EXPIRY) == expires_at(issuer)  # the first of the chain
            with connected(h, files.trust()) as newly:
                assert chat(newly, h) == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                connected(h, old)
            files.own.write_bytes(b"no certificate")
            reload(h, "reload_refused")
            assert chat(early, h) == 200
            for path in (files.own, files.upstream, files.key, files.chain):
                files.renew()
                path.unlink()
                os.mkfifo(path)
                reload(h, "reload_refused")
                assert chat(early, h) == 200
                path.unlink()
