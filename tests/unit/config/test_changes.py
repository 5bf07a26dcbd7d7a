"""What a reload changes, and the credentials of channels."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from channels.authorizers.specs import AwsSpec, AzureSpec, GoogleSpec
from channels.redaction import Redactor
from channels.registry import ChannelSpec
from gw.config import credentials, reload
from gw.config.config import Certificate, Config
from gw.config.credentials import check_credentials
from gw.config.faults import ConfigFaults
from gw.config.keys import declared
from gw.config.load import load_text
from tests.support.rows import cases, each
from tests.unit.config.reading import SOURCE, faults_of, model, read
from tests.unit.config.test_kinds import url_of

RUNNING = read("")
LIVE = {
    "agents",
    "budgets",
    "attribution",
    "drain_seconds",
    "events",
    "keep_alive_before_first_event",
    "keep_alive_seconds",
    "ledger_retention_months",
    "log_level",
    "retention_months",
    "tls",
    "translate",
    "translations",
    "webhooks",
}


def waiting(record: type, running: Any) -> Iterator[tuple[str, Any]]:
    """Yield each key that waits for a restart, and what runs with another value of it."""
    for name, field, key in declared(record):
        value = getattr(running, field.name)
        if key.is_live:
            continue
        if key.record is None:
            yield name, replace(running, **{field.name: object()})
        else:
            for part, changed in waiting(key.record, value):
                yield f"{name}.{part}", replace(running, **{field.name: changed})


def test_every_key_is_applied_or_waits() -> None:
    """Whoever adds a key decides which."""
    assert {name for name, _, key in declared(Config) if key.is_live} == LIVE


def test_key_that_waits_is_named_as_the_file_names_it() -> None:
    rows = dict(waiting(Config, RUNNING))
    assert {"listen", "max_body_mb", "timeouts.chat", "kb_store.bucket"} <= rows.keys()
    for name, changed in rows.items():
        assert reload.needing_restart(RUNNING, changed) == [name]


def test_key_that_waits_holds_for_nothing_before_the_restart() -> None:
    for name, changed in waiting(Config, RUNNING):
        assert reload.in_force(RUNNING, changed) == RUNNING, name
    wanted = read("describe: false\ncredits_per_usd: 5\nlog_level: debug\n" + model())
    applied = reload.in_force(RUNNING, wanted)
    assert (applied.describe, applied.credits_per_usd) == (True, RUNNING.credits_per_usd)
    assert (applied.log_level, applied.registry) == ("debug", wanted.registry)


def test_what_a_reload_applies_is_not_named() -> None:
    wanted = read(
        "drain_seconds: 1\nlog_level: debug\ntranslations: []\nretention_months: 3\n"
        "ledger_retention_months: 24\n" + model()
    )
    assert reload.needing_restart(RUNNING, wanted) == []


def test_certificate_is_read_again_and_tls_is_not_switched() -> None:
    one = replace(RUNNING, tls=Certificate(SOURCE, SOURCE))
    other = replace(RUNNING, tls=Certificate(SOURCE.parent, SOURCE))
    assert reload.needing_restart(one, other) == []
    assert reload.needing_restart(RUNNING, one) == reload.needing_restart(one, RUNNING) == ["tls"]
    assert reload.in_force(one, other).tls == other.tls
    assert (reload.in_force(RUNNING, one), reload.in_force(one, RUNNING)) == (RUNNING, one)


def test_difference_names_what_changed_and_shows_prices_alone() -> None:
    before = read(model("multiplier: 2"))
    text = model(price="{input: 1, output: 3}").replace(
        "    api_key: key\n", "    api_key: hidden\n    headers: {x-pass: hidden-too}\n"
    )
    after = read("secret: hidden-hidden-hidden\n" + text)
    assert reload.changes(before, after) == [
        "channel a: api_key, headers",
        "model m: price.output 2 to 3, multiplier",
        "secret",
    ]
    assert reload.changes(before, before) == []
    assert reload.changes(before, read("")) == ["channel a: removed", "model m: removed"]
    assert reload.changes(read(""), before) == ["channel a: added", "model m: added"]


def test_difference_is_bounded() -> None:
    many = "models:\n" + "".join(f"  - {{id: m{n}, callable: false}}\n" for n in range(150))
    found = reload.changes(RUNNING, read(many))
    assert (len(found), found[-1]) == (reload.CHANGES_MAX + 1, "and 50 more")


@cases(
    "before, after, is_refused",
    ("{input: 1, output: 2}", "{input: 10, output: 0.2}", False),
    ("{input: 1, output: 2}", "{input: 10.01, output: 2}", True),
    ("{input: 1, output: 2}", "{input: 0.0999, output: 2}", True),
    ("{input: 1, output: 2}", "{input: 0, output: 2}", True),
    ("{input: 0, output: 2}", "{input: 0.01, output: 2}", True),
    ("{input: 1, output: 2}", "{input: 1, output: 2, cached_input: 90}", False),
)
def test_price_that_moves_by_more_than_ten_times_is_refused(
    before: str, after: str, is_refused: bool
) -> None:
    running, wanted = (read(model(price=price)) for price in (before, after))
    if not is_refused:
        reload.check_price_moves(running, wanted)
        return
    with pytest.raises(ConfigFaults) as refused:
        reload.check_price_moves(running, wanted)
    (fault,) = refused.value.faults
    assert fault.path == "models[0].price.input"
    assert fault.hint == "a restart puts it in force"
    reload.check_price_moves(read(""), wanted)  # a new model has any price


def test_multiplier_counts_as_every_price() -> None:
    running, wanted = (read(model(f"multiplier: {n}")) for n in (1, 11))
    with pytest.raises(ConfigFaults) as refused:
        reload.check_price_moves(running, wanted)
    assert [fault.path for fault in refused.value.faults] == [
        "models[0].price.input",
        "models[0].price.output",
    ]


KEY_FILE = json.dumps({"type": "service_account", "private_key": "-----BEGIN\nhidden-key\n"})
AWS = "auth: aws-sigv4, region: r"
GOOGLE = "auth: google-service-account, credentials:"
# What is said of a channel, and the members of it that are wrong.
FAULTS: list[tuple[str, list[str]]] = [
    ("auth: aws-sigv4", ["region"]),
    ("auth: aws-sigv4, region: 'us east'", ["region"]),
    (f"{AWS}, credentials: {{access_key_id: a}}", ["credentials.secret_access_key"]),
    (f"{AWS}, credentials: {{secret_access_key: a}}", ["credentials.access_key_id"]),
    (f"{AWS}, credentials: {{session_token: a}}", ["credentials.session_token"]),
    (
        f"{AWS}, credentials: {{access_key_id: a, secret_access_key: b, profile: p}}",
        ["credentials.profile"],
    ),
    (f"{AWS}, credentials: {{client_id: a}}", ["credentials.client_id"]),
    (f"{GOOGLE} {{json: '{{}}'}}", ["credentials.json"]),
    (f"{GOOGLE} {{file: a, json: {json.dumps(KEY_FILE)}}}", ["credentials.json"]),
    ("auth: azure-ad", ["credentials", "credentials.client_id", "credentials.tenant_id"]),
    (
        "auth: azure-ad, "
        "credentials: {tenant_id: t, client_id: c, client_secret: s, token_file: f}",
        ["credentials"],
    ),
    ("auth: bearer, api_key: k, credentials: {profile: p}", ["credentials"]),
    ("auth: aws-sigv3, api_key: k", ["auth"]),
    (f"{AWS}, headers: {{x-amz-date: a, Authorization: b}}", ["headers", "headers"]),
    ("kind: vertex, project: p, region: r, paths: {messages: /own}", ["paths.messages"]),
    ("kind: vertex", ["project", "region"]),
    ("kind: bedrock, api_key: k", ["region"]),
    ("kind: bedrock, api_key: k, region: 'r:1'", ["region"]),
    ("kind: vertex, project: 'example.com:p', region: 'r:1'", ["region"]),
]


def config_of(message: str, folder: Path = Path("/etc/gateway"), /, **environ: str) -> Config:
    text = f"channels: [{{id: one, protocols: [chat], base_url: 'https://a.example', {message}}}]"
    return load_text(text, environ, source=folder / "gw.yaml")


def channel_of(message: str, **environ: str) -> ChannelSpec:
    return config_of(message, Path("/etc/gateway"), **environ).registry.channels["one"]


@each("message, places", FAULTS)
def test_what_is_wrong_is_reported_with_its_place(message: str, places: list[str]) -> None:
    own = "" if "kind" in message else "protocols: [chat], base_url: 'https://a.example', "
    faults = faults_of(f"channels: [{{id: one, {own}{message}}}]")
    paths = sorted(fault.path for fault in faults)
    assert paths == [f"channels[0].{place}" for place in places]
    assert all(fault.allowed for fault in faults)
    assert "hidden-key" not in str([(fault.found, fault.hint) for fault in faults])


def test_aws_takes_keys_of_the_file_or_leaves_them_to_the_usual_places() -> None:
    message = (
        "auth: aws-sigv4, region: us-east-1, credentials: {access_key_id: '${ID}', "
        "secret_access_key: '${SECRET}', session_token: '${TOKEN:-}'}"
    )
    environ = {"ID": "AKIA1", "SECRET": "hidden-secret", "TOKEN": "hidden-token"}
    spec = channel_of(message, **environ)
    assert spec.authorizer == AwsSpec(
        "us-east-1", "bedrock", "AKIA1", "hidden-secret", "hidden-token"
    )
    assert spec.api_key == ""
    assert "hidden" not in repr(spec)
    shown = Redactor([spec]).text("it was hidden-secret with hidden-token")
    assert shown == "it was [redacted] with [redacted]"
    usual = channel_of("auth: aws-sigv4, region: us-east-1, credentials: {profile: team}")
    assert usual.authorizer == AwsSpec("us-east-1", profile="team")


def test_google_takes_a_file_or_its_text_or_the_applications_defaults(tmp_path: Path) -> None:
    way = "auth: google-service-account"
    found = config_of(f"{way}, credentials: {{file: key.json}}", tmp_path)
    assert found.registry.channels["one"].authorizer == GoogleSpec(file=str(tmp_path / "key.json"))
    text = channel_of(f"{way}, credentials: {{json: '${{KEY}}'}}", KEY=KEY_FILE)
    assert text.authorizer == GoogleSpec(info=KEY_FILE)
    assert "hidden-key" not in repr(text)
    assert channel_of(way).authorizer == GoogleSpec()


def test_azure_takes_a_secret_or_a_file(tmp_path: Path) -> None:
    way = "auth: azure-ad, credentials: {tenant_id: t, client_id: c"
    assert channel_of(f"{way}, client_secret: s}}").authorizer == AzureSpec("t", "c", "s")
    found = config_of(f"{way}, token_file: token, authority: 'https://login.example/'}}", tmp_path)
    assert found.registry.channels["one"].authorizer == AzureSpec(
        "t", "c", token_file=str(tmp_path / "token"), authority="https://login.example"
    )


@pytest.mark.parametrize("content", [None, "", "{}", '{"type": "gdch_service_account"}'], ids=str)
def test_key_file_that_is_none_is_a_fault(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "key.json"
    if content is not None:
        path.write_text(content)
    config = config_of("auth: google-service-account, credentials: {file: key.json}", tmp_path)
    with pytest.raises(ConfigFaults) as raised:
        check_credentials(config)
    assert str(path) in str(raised.value)
    path.write_text(KEY_FILE)
    check_credentials(config)


@pytest.mark.parametrize(
    ("way", "extra"), [("aws-sigv4, region: r", "[aws]"), ("google-service-account", "[google]")]
)
def test_library_that_is_not_there_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, way: str, extra: str
) -> None:
    config = config_of(f"auth: {way}")
    check_credentials(config)
    monkeypatch.setattr(credentials, "find_spec", lambda name: None)
    with pytest.raises(ConfigFaults) as raised:
        check_credentials(config)
    assert extra in str(raised.value)


PLACE = "{}/v1/projects/p-1/locations/{}/publishers/google/models/m:streamGenerateContent?alt=sse"
# Regions of another form have hosts of their own, and a channel may have its own.
REGIONS = [
    ("us-east5", "https://us-east5-aiplatform.googleapis.com", ""),
    ("global", "https://aiplatform.googleapis.com", ""),
    ("eu", "https://aiplatform.eu.rep.googleapis.com", ""),
    ("global", "http://127.0.0.1:9", ", base_url: 'http://127.0.0.1:9'"),
]


@each("region, host, more", REGIONS)
def test_region_and_project_are_in_the_address(region: str, host: str, more: str) -> None:
    text = f"channels: [{{id: one, kind: vertex, project: p-1, region: {region}{more}}}]"
    spec = read(text).registry.channels["one"]
    assert url_of(spec, "native", stream=True) == PLACE.format(host, region)


def test_kind_is_proved_by_its_own_way_or_by_a_key() -> None:
    signed = read("channels: [{id: one, kind: bedrock, region: us-east-1}]")
    spec = signed.registry.channels["one"]
    assert (spec.auth, spec.authorizer) == ("aws-sigv4", AwsSpec("us-east-1"))
    keyed = read("channels: [{id: one, kind: bedrock, region: us-east-1, api_key: k}]")
    spec = keyed.registry.channels["one"]
    assert (spec.auth, spec.authorizer, spec.api_key) == ("bearer", None, "k")
    assert spec.base_url == "https://bedrock-runtime.us-east-1.amazonaws.com"


def test_models_of_a_kind_are_spoken_to_in_the_protocol_that_they_have() -> None:
    vertex = read("channels: [{id: one, kind: vertex, project: p, region: r}]")
    spec = vertex.registry.channels["one"]
    assert spec.spoken("claude-sonnet-4-5@20250929") == {"messages"}
    assert spec.spoken("gemini-2.5-pro") == {"native"}
    own = read("channels: [{id: one, kind: vertex, project: p, region: r, protocols: [messages]}]")
    assert own.registry.channels["one"].spoken("gemini") == {"messages"}
