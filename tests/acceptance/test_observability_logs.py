"""One life of a gateway with every kind of trouble in it: what its probes said, and what its log.

The life is lived once; each test looks at one side of the record. Metrics are
`test_observability.py`, spans `test_observability_traces.py`.
"""

import signal
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from loadtests.rig.client import CHAT, Client
from loadtests.rig.deployment import SECRET, Deployment, channel, deployment, logged, model
from loadtests.rig.folders import temporary_folder
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.response import Response
from loadtests.rig.scrape import Admin
from loadtests.rig.upstream import key_of
from loadtests.rig.waiting import until
from tests.support.collector import running_sink

pytestmark = pytest.mark.long

NOBODY = "http://127.0.0.1:1"
UNKNOWN_KEY = "sk-platform-" + "0123456789abcdef" * 4
PROMPT = "what-the-client-said-is-nobody-elses"
STATED = [{"role": "user", "content": PROMPT}]
CHANNELS = ("one", "fragile", "away")
SETTINGS: dict[str, Any] = {
    "channels": [
        channel("one"),
        channel("fragile", health={"failures": 1, "cooldown": 3600}),
        channel("away", base_url=NOBODY),
    ],
    "models": [model("sim-model", "one"), model("fragile", "fragile"), model("away", "away")],
    "drain_seconds": 30,
}
# What upstreams say of themselves, in all places where they can.
TELLTALE = f"Incorrect API key provided: {key_of('one')}, at http://user:{key_of('one')}@upstream/"
TROUBLES: dict[str, dict[str, Any]] = {
    "refusal": {"sim": {"status": 401, "message": TELLTALE}},
    "failure": {"sim": {"status": 500, "message": TELLTALE}},
    "failure of a stream": {"stream": True, "sim": {"status": 500, "message": TELLTALE}},
    "failure in HTML": {"sim": {"status": 502, "body": f"<h1>{TELLTALE}</h1>"}},
    "failure in headers": {"sim": {"status": 500, "headers": {"x-debug": TELLTALE}}},
    "error event": {"stream": True, "sim": {"error_event": 1, "message": TELLTALE}},
    "no JSON": {"sim": {"malformed": "json"}},
    "no UTF-8": {"stream": True, "sim": {"malformed": "utf8"}},
    "no HTTP": {"sim": {"malformed": "http"}},
    "broken chunk": {"stream": True, "sim": {"malformed": "chunk"}},
    "cut": {"stream": True, "sim": {"events": 9, "cut_after_events": 3, "cut": "reset"}},
    "refused": {"sim": {"refuse": True}},
    "unreachable": {"model": "away"},
    "opened": {"model": "fragile", "sim": {"status": 500}},
    "open": {"model": "fragile"},
    "not covered": {"max_tokens": 10**12},
    "no model": {"model": UNKNOWN_KEY},
    "wrong type": {"temperature": UNKNOWN_KEY},
}


@dataclass(frozen=True)
class Probes:
    """What the admin listener said at one moment."""

    healthz: Response
    readyz: Response
    database_up: float

    @property
    def verdict(self) -> tuple[int, int, str, float]:
        """Liveness, readiness, why, and the gauge."""
        why = self.readyz.json["status"]
        return self.healthz.status, self.readyz.status, why, self.database_up


@dataclass
class Life:
    """The record of one gateway's life."""

    probes: dict[str, Probes] = field(default_factory=dict)
    failed: Response | None = None  # a call while the database was away
    is_refusing: bool = False  # new connections, while draining
    exit_code: int | None = None
    secrets: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(logged(self.lines))

    def look(self, name: str, h: Deployment) -> None:
        """Ask the probes."""
        admin = Admin(h.gateway.admin_url)
        up = admin.page().value("gw_database_up")
        self.probes[name] = Probes(admin.get("/healthz"), admin.get("/readyz"), up)


@pytest.fixture(scope="module")
def life(postgres: PostgresForTests) -> Life:
    """Start, trouble, an outage, reloads, drain, end."""
    record = Life()
    with running_sink() as sink, temporary_folder() as folder, postgres.database() as url:
        sink.status = 400  # a collector that takes nothing is one more trouble
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": sink.url,
            "OTEL_TRACES_SAMPLER_ARG": "1.0",
            "OTEL_BSP_SCHEDULE_DELAY": "20",
            "NO_PROXY": "127.0.0.1",
        }
        with deployment(url, folder, environ=environ, **SETTINGS) as h:
            live(h, record, postgres, url)
        record.lines = list(h.gateway.lines)
    return record


def live(h: Deployment, record: Life, postgres: PostgresForTests, url: str) -> None:
    tenant, fresh = h.tenant(), h.tenant()
    record.secrets = [h.key, tenant.key, fresh.key, UNKNOWN_KEY, SECRET, PROMPT]
    record.secrets += [key_of(name) for name in CHANNELS]
    record.look("at first", h)
    trouble_from_clients(h, tenant.client)
    trouble_from_upstreams(tenant.client)
    with postgres.away(url):
        wait_ready(h, 503)
        wait_database(h, is_up=False)
        record.look("without a database", h)
        record.failed = fresh.client.chat()
    wait_ready(h, 200)
    wait_database(h, is_up=True)
    # The ledger's own connection comes back apart from the others.
    until(lambda: fresh.client.chat().status == 200, what="a call that is answered")
    record.look("with the database again", h)
    reload(h)
    call = tenant.client.begin_chat(stream=True, sim={"text": "a b c", "hang": 2})
    call.read_some()
    h.gateway.popen.send_signal(signal.SIGTERM)
    wait_ready(h, 503)
    record.look("draining", h)
    record.is_refusing = not is_listening(h.gateway.url)
    call.leave()
    record.exit_code = h.gateway.wait()


def trouble_from_clients(h: Deployment, client: Client) -> None:
    """Keys in wrong places, bytes that are no request, clients that leave."""
    assert Client(client.url, UNKNOWN_KEY).chat().status == 401
    assert Client(client.url, None).send("GET", f"/v1/models?key={UNKNOWN_KEY}").status == 401
    assert client.chat(headers={"x-api-key": UNKNOWN_KEY, "Cookie": client.key or ""})
    assert client.chat(b'{"%b' % UNKNOWN_KEY.encode()).status == 400
    assert client.get(f"/v1/{UNKNOWN_KEY}").status == 404
    key = (client.key or "").encode()
    for raw in (
        b"%b\r\n\r\n" % key,
        b"GET /v1/models?key=%b HTTP/9.9\r\n\r\n" % key,
        b"GET /v1/models HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %b\x00\r\n\r\n" % key,
        b"GET /v1/models HTTP/1.1\r\nHost: h\r\nAuthorization Bearer %b\r\n\r\n" % key,
        b"POST %b HTTP/1.1\r\nHost: h\r\nContent-Length: %b\r\n\r\n" % (CHAT.encode(), key),
        b"POST %b HTTP/1.1\r\nHost: h\r\nx-api-key: %b\r\nTransfer-Encoding: chunked\r\n\r\n%b\r\n"
        % (CHAT.encode(), key, key),
        b"POST %b HTTP/1.1\r\nHost: h\r\nx-api-key: %b\r\nContent-Length: 99\r\n\r\n{"
        % (CHAT.encode(), key),
    ):
        send_raw(h.gateway.url, raw)
    sim = {"text": PROMPT, "hang": 2}
    with client.begin_chat(stream=True, messages=STATED, sim=sim) as call:
        call.read_some()
    h.upstream.wait(active=0)


def trouble_from_upstreams(client: Client) -> None:
    """How each is answered is tested elsewhere."""
    for members in TROUBLES.values():
        client.chat(messages=STATED, **members)


def reload(h: Deployment) -> None:
    """A good file, then files whose faults stand right at a secret."""
    h.write(channels=[*h.settings["channels"], channel("late")])
    hang_up(h, "configuration_reloaded", 1)
    good = h.config.read_text()
    key = key_of("one")
    for count, bad in enumerate(
        (
            good.replace(f"api_key: {key}", f"api_key: {{{key}: 1}}"),
            good.replace(f"api_key: {key}", f"api_keys: {key}"),
            good.replace(f"api_key: {key}", f'api_key: "{key}'),
            good.replace(f"secret: {SECRET}", f"secret: {{{SECRET}: 1}}"),
            good.replace("database_url: ", "database_url: mysql://"),
        ),
        start=1,
    ):
        assert bad != good
        h.config.write_text(bad)
        hang_up(h, "reload_refused", count)
    h.config.write_text(good)


def hang_up(h: Deployment, action: str, count: int) -> None:
    h.gateway.popen.send_signal(signal.SIGHUP)
    until(lambda: len(h.events(action)) == count, what=f"{action} {count}")


def wait_ready(h: Deployment, status: int) -> None:
    admin = Admin(h.gateway.admin_url)
    until(lambda: admin.get("/readyz").status == status, what=f"readiness {status}")


def wait_database(h: Deployment, *, is_up: bool) -> None:
    """Readiness asks the database itself; the gauge says what the last heartbeat found."""
    Admin(h.gateway.admin_url).page_when(
        lambda page: page.value("gw_database_up") == is_up, what=f"gw_database_up {is_up:d}"
    )


def is_listening(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname, parts.port)) == 0


def send_raw(url: str, data: bytes) -> None:
    """Send these bytes and hang up when something came back, or after a moment."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=0.2) as raw:
        raw.sendall(data)
        with suppress(TimeoutError):  # it may wait for the rest
            raw.recv(65536)


READY = (200, 200, "ok", 1)
VERDICTS = {
    "at first": READY,
    "without a database": (200, 503, "database unreachable", 0),
    "with the database again": READY,
    "draining": (200, 503, "draining", 1),
}


@pytest.mark.parametrize("moment", VERDICTS)
def test_probes_tell_what_may_be_sent_here(life: Life, moment: str) -> None:
    probes = life.probes[moment]
    assert probes.verdict == VERDICTS[moment]
    assert probes.healthz.json == {"status": "ok"}
    for reply in (probes.healthz, probes.readyz):
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["cache-control"] == "no-store"
        assert len(reply.trace) == 32


def test_drain_takes_no_connections_and_ends_well(life: Life) -> None:
    assert life.is_refusing
    assert life.exit_code == 0


def test_call_without_a_database_fails_clearly_and_is_found_by_its_trace(life: Life) -> None:
    reply = life.failed
    assert reply is not None
    assert reply.refusal == (503, "server_error", "no_channel_available")
    (line,) = [e for e in life.events if e.get("trace") == reply.trace]
    assert (line["action"], line["level"]) == ("request_failed", "warning")


def test_what_happened_is_in_the_log(life: Life) -> None:
    actions = {event["action"] for event in life.events}
    assert actions >= {
        "channel_opened",
        "configuration_reloaded",
        "database_lost",
        "database_reached",
        "heartbeat_missed",
        "reload_refused",
        "stopped",
    }
    (opened,) = [event for event in life.events if event["action"] == "channel_opened"]
    assert (opened["channel"], opened["was"], opened["level"]) == ("fragile", "closed", "warning")
    assert life.events[-1]["action"] == "stopped"


def test_only_what_needs_somebody_is_an_error(life: Life) -> None:
    """Clients' mistakes, upstreams' failures and outages are none of our errors."""
    errors = [event for event in life.events if event["level"] in ("error", "critical")]
    assert {(event["logger"], event["action"]) for event in errors} == {
        ("gw.run", "reload_refused"),
        ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "logged"),
    }


def test_no_secret_is_in_the_log(life: Life) -> None:
    assert len(life.secrets) > len(CHANNELS)
    for secret in life.secrets:
        # Most of a key of ours is as good as the whole; its beginning may stay, to tell it by.
        is_ours = secret.startswith("sk-platform-")
        piece = secret[-32:] if is_ours else secret
        assert not [line for line in life.lines if piece in line], secret
