"""Channels of a configuration: addresses, kinds, transports."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from channels.dialects.table import DIALECTS
from channels.families import FAMILIES, PROTOCOLS
from channels.http.interfaces import UpstreamRequest
from channels.http.transport import Proxy, Transport
from channels.kinds import KINDS, Kind
from channels.redaction import key_spellings
from channels.registry import ChannelSpec
from gw.config.config import Config
from gw.config.faults import ConfigFaults
from gw.config.live import LiveConfig
from gw.config.transport import check_client_certificates
from gw.config.upstream import PROVED
from metrics.log_redaction import redact
from tests.support.certificates import pem_files
from tests.support.rows import cases, each
from tests.unit.config.reading import SOURCE, channel, check_fault, fault_of, places_of, read

# A channel of which nothing is told.
GOOD = channel().replace(": key", ": key-of-a")


def spec_of(extra: str, **environ: str) -> ChannelSpec:
    return read(channel(extra), **environ).registry.channels["a"]


def cautions_of(text: str, **environ: str) -> list[tuple[str, str]]:
    found = [(one.path, one.message) for one in read(text, **environ).cautions]
    return [one for one in found if not one[0].endswith(".id")]


def test_channel_says_where_and_how_its_requests_go() -> None:
    spec = spec_of(
        "paths: {chat: /api/v3/chat/completions}\nauth: query:api_key\n"
        "headers: {X-Team: a b, Authorization: Token ${TEAM_TOKEN}, X-Team-Key: Key in-the-file}\n"
        'query: {api-version: "2024-10-21", sig: "${SIG}", v: "${V:-preview}"}\n',
        TEAM_TOKEN="secret/of the team",
        SIG="signature-1",
    )
    assert spec.paths == {"chat": "/api/v3/chat/completions"}
    assert spec.auth == "query:api_key"
    assert spec.headers == (
        ("X-Team", "a b"),
        ("Authorization", "Token secret/of the team"),
        ("X-Team-Key", "Key in-the-file"),
    )
    assert spec.query == (("api-version", "2024-10-21"), ("sig", "signature-1"), ("v", "preview"))
    assert spec.field_secrets == {"secret/of the team", "signature-1", "in-the-file"}
    assert {"secret%2Fof%20the%20team", "secret%2Fof+the+team"} < key_spellings(spec)
    assert "signature-1" not in repr(spec)
    assert "secret" not in repr(spec)


@cases("way", "bearer", "x-api-key", "api-key", "x-goog-api-key", "none")
def test_each_way_to_send_the_key_is_taken(way: str) -> None:
    assert spec_of(f"auth: {way}").auth == way


def test_channel_without_authentication_needs_no_key() -> None:
    text = channel("auth: none").replace("    api_key: key\n", "")
    assert read(text).registry.channels["a"].api_key == ""
    assert places_of(channel().replace("    api_key: key\n", "")) == [(2, "channels[0].api_key")]


HEADER = "any header that the gateway does not write itself"
BAD = [
    ("auth: basic", "auth", '"basic"', "bearer, x-api-key", ""),
    ("auth: Bearer", "auth", '"Bearer"', "bearer, x-api-key", "did you mean bearer?"),
    ("auth: 'query:'", "auth", '"query:"', "query:NAME", "did you mean query:NAME?"),
    ("auth: 'query:a b'", "auth", "query:a b", "query:NAME", "did you mean query:NAME?"),
    ("paths: {chat: v1/chat}", "paths.chat", '"v1/chat"', "from / on", ""),
    ("paths: {chat: '/v1/chat?a=hidden'}", "paths.chat", "/v1/chat?a=", "without a query", "query"),
    ("paths: {chat: /v1/../admin}", "paths.chat", "/v1/../admin", "from / on", ""),
    ("paths: {chat: '/a b'}", "paths.chat", '"/a b"', "from / on", ""),
    ("paths: {chat: '/{name}'}", "paths.chat", "{name}", "{model} stands", ""),
    ("paths: {videos: /v1/videos}", "paths.videos", "unknown key", "the keys chat", ""),
    ("paths: {messages: /m}", "paths.messages", "not among", "the protocols chat", ""),
    ("headers: [a]", "headers", "a list of 1", "a mapping", ""),
    ("headers: {Host: a.example}", "headers.Host", '"Host"', HEADER, ""),
    ("headers: {content-length: '5'}", "headers.content-length", "content-length", HEADER, ""),
    ("headers: {Transfer-Encoding: chunked}", "headers.Transfer-Encoding", "T", HEADER, ""),
    ("headers: {CONNECTION: close}", "headers.CONNECTION", "CONNECTION", HEADER, ""),
    ("headers: {'X: Y': a}", 'headers["X: Y"]', "X: Y", "letters, digits and -", ""),
    ('headers: {X-A: "hidden\\r\\nHost: b"}', "headers.X-A", "(not shown)", "one line", ""),
    ("headers: {X-A: 'hiddén'}", "headers.X-A", "(not shown)", "ASCII", ""),
    ("headers: {X-A: 5}", "headers.X-A", "a whole number", "a header", "quotes"),
    ("headers: {X-A: a, x-a: b}", "headers.x-a", "again", "each name once", ""),
    ("headers: {Authorization: hidden}", "headers", "takes the key", "auth: none", ""),
    ("auth: query:key\nquery: {Key: hidden}", "query", "takes the key", "auth: none", ""),
    ("query: {alt: sse}", "query.alt", '"alt"', "any parameter but alt", ""),
    ("query: {'a b': c}", 'query["a b"]', "a b", "letters, digits", ""),
]  # fmt: skip


@each("case", BAD)
def test_bad_value_is_a_fault_that_says_what_is_allowed(
    case: tuple[str, str, str, str, str],
) -> None:
    extra, path, found, allowed, hint = case
    line = 5 + len(extra.splitlines())
    check_fault(channel(extra), line, f"channels[0].{path}", found, allowed, hint)


def test_path_of_the_native_protocol_has_the_model_in_it() -> None:
    text = channel("paths: {native: /v1/models}").replace("[chat]", "[native]")
    assert "{model}" in fault_of(text).allowed
    good = text.replace("/v1/models", "'/v1/projects/p/models/{model}'")
    assert read(good).registry.channels["a"].paths["native"].endswith("{model}")


def test_version_that_would_stand_in_the_path_twice_is_told() -> None:
    text = GOOD.replace("https://a.example", "https://a.example/api/v1")
    ((path, message),) = cautions_of(text)
    assert path == "channels[0].base_url"
    assert "https://a.example/api/v1/v1/chat/completions" in message
    own = f"{text}    paths: {{chat: /api/v1/chat}}"
    assert cautions_of(own) == []


def test_key_that_is_sent_nowhere_is_told() -> None:
    ((path, message),) = cautions_of(f"{GOOD}    auth: none")
    assert (path, message) == ("channels[0].api_key", "not sent anywhere: auth is none")


def test_secret_of_a_header_that_is_too_short_to_be_masked_is_told() -> None:
    text = GOOD + "    headers: {X-A: '${SHORT}'}"
    ((path, message),) = cautions_of(text, SHORT="abcde")
    assert path == "channels[0]"
    assert "too short" in message
    assert cautions_of(text, SHORT="abcdef") == []


def test_request_shows_no_secret_when_it_is_printed() -> None:
    request = UpstreamRequest("POST", "https://a/v1?key=hidden", (("X-Key", "hidden"),), b"hidden")
    assert repr(request) == "<UpstreamRequest POST https://a/v1>"


def test_several_keys_are_read_in_order() -> None:
    text = channel().replace("api_key: key", "api_key: [key-one, '${SECOND}']")
    spec = read(text, SECOND="key-two").registry.channels["a"]
    assert spec.keys == ("key-one", "key-two")
    assert spec.secrets == spec.keys


@cases(
    "keys, path, allowed",
    ("[]", "api_key", "a key, or 1 to 100"),
    ("[hidden, '']", "api_key[1]", "a key"),
    ("[hidden, 'a b']", "api_key[1]", "ASCII without spaces"),
    ("[hidden-1, hidden-1]", "api_key[1]", "each key once"),
    ("{a: hidden}", "api_key", "upstream's key"),
)
def test_bad_list_of_keys_is_a_fault_that_shows_none(keys: str, path: str, allowed: str) -> None:
    fault = fault_of(channel().replace("api_key: key", f"api_key: {keys}"))
    assert fault.path == f"channels[0].{path}"
    assert allowed in fault.allowed
    assert "hidden" not in repr(fault)


def test_channel_that_makes_tasks_has_one_key() -> None:
    text = channel().replace("[chat]", "[chat, videos]").replace(": key", ": [key-one, key-two]")
    fault = fault_of(text)
    assert (fault.path, fault.allowed) == ("channels[0].api_key", "one key where tasks are made")


def test_key_of_the_configuration_before_stays_redacted_and_reaches_no_log() -> None:
    def keyed(key: str) -> Config:
        return read(channel().replace(": key", f": {key}"))

    said = "first-key second-key third-key"
    live = LiveConfig(keyed("first-key"))
    assert redact(said) == "[redacted] second-key third-key"
    live.swap(keyed("second-key"))
    assert redact(said) == live.redact(said) == "[redacted] [redacted] third-key"
    live.swap(keyed("third-key"))
    assert redact(said) == "first-key [redacted] [redacted]"


# --- What `kind` of a channel fills in, and what the channel's own words leave of it ---

OWN_HOSTS = sorted(name for name, kind in KINDS.items() if not kind.base_url)


def kind_of(*lines: str, kind: str = "openai", key: str = "    api_key: key-of-a\n") -> ChannelSpec:
    more = "".join(f"    {line}\n" for line in lines)
    text = f"channels:\n  - id: one\n    kind: {kind}\n{key}{more}"
    return read(text).registry.channels["one"]


def url_of(spec: ChannelSpec, protocol: str, *, stream: bool = False) -> str:
    address = DIALECTS[protocol].address
    request = address.request(spec, b"", protocol=protocol, upstream_model="m", stream=stream)
    return request.url


def placed(template: str, marks: dict[str, str]) -> str:
    for mark, value in marks.items():
        template = template.replace(mark, value)
    return template


@each("kind", KINDS.values())
def test_each_kind_makes_a_channel_of_its_key_alone(kind: Kind) -> None:
    lines = [] if kind.base_url else ["base_url: https://own.example"]
    lines += ["region: global", "project: p"]
    marks = {"{region}": "global", "{project}": "p"}
    is_keyless = kind.auth == "none"
    spec = kind_of(*lines, kind=kind.name, key="" if is_keyless else "    api_key: key-of-a\n")
    base_url = kind.regional.get("global") or kind.base_url or "https://own.example"
    assert spec.base_url == placed(base_url, marks)
    assert spec.protocols == set(kind.protocols) <= set(PROTOCOLS)
    auth = "bearer" if kind.auth in PROVED else kind.auth
    assert (spec.auth, spec.max_tokens_param) == (auth, kind.max_tokens_param)
    assert spec.has_system_first == (kind.system_turns == "first")
    assert spec.takes_cache_key == kind.prompt_cache_key
    assert spec.drops_billing_header == kind.drop_billing_header
    assert spec.paths == {name: placed(path, marks) for name, path in kind.paths.items()}
    assert spec.wire == kind.wire
    assert all(wire in FAMILIES[name].wires for name, wire in kind.wire.items())
    assert spec.kind == kind.name
    assert kind.read_on is None or date.fromisoformat(kind.read_on)
    assert kind.source


URLS = [
    ("openai", "chat", "https://api.openai.com/v1/chat/completions"),
    ("openai", "images", "https://api.openai.com/v1/images/generations"),
    ("anthropic", "messages", "https://api.anthropic.com/v1/messages"),
    ("deepseek", "messages", "https://api.deepseek.com/anthropic/v1/messages"),
    ("groq", "chat", "https://api.groq.com/openai/v1/chat/completions"),
    ("openrouter", "messages", "https://openrouter.ai/api/v1/messages"),
    ("fireworks", "chat", "https://api.fireworks.ai/inference/v1/chat/completions"),
    ("zhipu", "chat", "https://open.bigmodel.cn/api/paas/v4/chat/completions"),
    ("ark", "responses", "https://ark.cn-beijing.volces.com/api/v3/responses"),
    ("dashscope", "chat", "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions"),
    ("minimax", "messages", "https://api.minimax.io/anthropic/v1/messages"),
]


@each("kind, protocol, url", URLS)
def test_requests_go_where_the_provider_documents_it(kind: str, protocol: str, url: str) -> None:
    assert url_of(kind_of(kind=kind), protocol) == url


def test_gemini_is_spoken_to_in_its_own_path() -> None:
    assert url_of(kind_of(kind="gemini"), "native", stream=True) == (
        "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse"
    )


def test_what_the_channel_says_takes_the_place_of_its_kinds() -> None:
    spec = kind_of(
        "base_url: http://127.0.0.1:9000/own",
        "protocols: [messages]",
        "auth: x-api-key",
        "max_tokens_param: max_completion_tokens",
        "system_turns: first",
        "prompt_cache_key: true",
        "drop_billing_header: false",
        kind="deepseek",
    )
    assert (spec.has_system_first, spec.takes_cache_key) == (True, True)
    assert spec.drops_billing_header is False
    assert (spec.base_url, spec.auth) == ("http://127.0.0.1:9000/own", "x-api-key")
    assert spec.protocols == {"messages"}
    assert spec.max_tokens_param == "max_completion_tokens"
    assert url_of(spec, "messages") == "http://127.0.0.1:9000/anthropic/v1/messages"
    own = kind_of("paths: {messages: /m}", kind="deepseek")
    assert own.paths == {"messages": "/m"}
    assert kind_of("protocols: [chat]", kind="deepseek").paths == {}


def test_own_parameters_join_those_of_the_kind() -> None:
    host = "base_url: https://r.openai.azure.com"
    kind = "azure-openai-deployments"
    path = "https://r.openai.azure.com/openai/deployments/m/chat/completions"
    assert url_of(kind_of(host, kind=kind), "chat") == f"{path}?api-version=2024-10-21"
    own = kind_of(host, 'query: {API-Version: "2025-01-01", x: "1"}', kind=kind)
    assert url_of(own, "chat") == f"{path}?API-Version=2025-01-01&x=1"


@each("kind", OWN_HOSTS)
def test_kind_whose_accounts_have_hosts_of_their_own_needs_one(kind: str) -> None:
    text = f"channels: [{{id: a, kind: {kind}, api_key: k}}]"
    assert places_of(text) == [(1, "channels[0].base_url")]


def test_kind_that_sends_a_key_needs_one() -> None:
    assert places_of("channels: [{id: a, kind: openai}]") == [(1, "channels[0].api_key")]
    text = "channels: [{id: a, kind: ollama, auth: bearer}]"
    assert places_of(text) == [(1, "channels[0].api_key")]


@cases("kind", "fireworks", "groq", "mistral")
def test_wire_of_a_kind_that_refuses_parts_gives_way_and_needs_no_model_in_its_path(
    kind: str,
) -> None:
    assert kind_of(kind=kind).wire == {"chat": kind}
    moved = kind_of("paths: {chat: /proxy/chat/completions}", kind=kind)
    assert (moved.wire, moved.paths) == ({"chat": kind}, {"chat": "/proxy/chat/completions"})
    assert kind_of("wire: {chat: plain}", kind=kind).wire.get("chat", "plain") == "plain"
    assert kind_of("protocols: [responses]", kind=kind).wire == {}


def test_keys_are_refused_in_the_words_of_the_kind() -> None:
    known = kind_of(kind="gemini").ring.known
    assert (400, "API key not valid") in known.of_key
    assert (403, "access the File") in known.of_request
    assert kind_of(kind="groq").ring.known == ((), ())


PROXY = Proxy("proxy.example", 3128, "u:p")
URL = "http://u:p@proxy.example:3128"


def transport_of(extra: str, **environ: str) -> Transport | None:
    return read(channel(extra), **environ).registry.channels["a"].transport


def test_usual_way_is_none() -> None:
    assert transport_of("") is None
    assert transport_of("proxy: ''\nca_file: ''\nclient_certificate:") is None


def test_proxy_of_the_file() -> None:
    assert transport_of("proxy: ${P}", P=URL) == Transport(PROXY)


@cases("name", "HTTPS_PROXY", "https_proxy")
def test_proxy_of_the_environment(name: str) -> None:
    assert transport_of("", **{name: URL}) == Transport(PROXY)
    assert transport_of("proxy: ''", **{name: URL}) is None
    text = channel().replace("https://", "http://")
    assert read(text, **{name: URL}).registry.channels["a"].transport is None


@cases(
    "spared, is_spared",
    ("a.example", True), ("b.example, A.example", True), (".example", True), ("example", True),
    ("a.example:443", True), ("*", True), ("a.example:8443", False), ("b.a.example", False),
    ("ample", False), (" , ", False),
)  # fmt: skip
def test_hosts_that_the_environment_spares(spared: str, is_spared: bool) -> None:
    found = transport_of("", HTTPS_PROXY=URL, NO_PROXY=spared)
    assert found == (None if is_spared else Transport(PROXY))
    # What the file says is meant.
    assert transport_of(f"proxy: {URL}", NO_PROXY=spared) == Transport(PROXY)


def test_files_start_at_the_folder_of_the_configuration() -> None:
    folder = SOURCE.parent
    extra = "ca_file: ca.pem\nclient_certificate: {certificate: own.pem, key: /k/own.key}"
    assert transport_of(extra) == Transport(
        ca_file=str(folder / "ca.pem"), certificate=str(folder / "own.pem"), key="/k/own.key"
    )


BAD_TRANSPORTS = [
    ("proxy: socks5://u:hidden@p:1", "proxy", "(not shown)", "http://[user:password@]host:port"),
    ("proxy: [a]", "proxy", "a list", "http://[user:password@]host:port"),
    ("ca_file: ~/ca.pem", "ca_file", "~/ca.pem", "without ~"),
]


@each("case", BAD_TRANSPORTS)
def test_bad_value_is_a_fault(case: tuple[str, str, str, str]) -> None:
    extra, path, found, allowed = case
    hint = "${HOME}" if "~" in extra else ""
    check_fault(channel(extra), 6, f"channels[0].{path}", found, allowed, hint)


def test_certificate_without_its_key_is_a_fault() -> None:
    fault = fault_of(channel("client_certificate: {certificate: own.pem}"))
    assert fault.path == "channels[0].client_certificate.key"


def test_proxy_of_the_environment_that_is_none_is_a_fault_that_does_not_show_it() -> None:
    fault = fault_of(channel(), HTTPS_PROXY="socks5://u:hidden@p:1")
    assert fault.path == "channels[0].proxy"
    assert "HTTPS_PROXY" in fault.found
    assert "hidden" not in repr(fault)
    assert transport_of("proxy: ''", HTTPS_PROXY="socks5://u:hidden@p:1") is None


def config_with(ca_file: str = "", certificate: str = "", key: str = "") -> Config:
    config = read(channel())
    transport = Transport(ca_file=ca_file, certificate=certificate, key=key)
    spec = replace(config.registry.channels["a"], transport=transport)
    return replace(config, registry=type(config.registry).of([spec], []))


def test_files_of_certificates_are_checked(tmp_path: Path) -> None:
    good, bad, gone = tmp_path / "good.pem", tmp_path / "bad.pem", tmp_path / "gone.pem"
    good.write_bytes(b"".join(pem_files("localhost")))
    bad.write_text("nothing")
    check_client_certificates(config_with(ca_file=str(good), certificate=str(good), key=str(good)))
    for files in (
        {"ca_file": str(bad)},
        {"ca_file": str(gone)},
        {"certificate": str(good), "key": str(bad)},
        {"certificate": str(gone), "key": str(gone)},
    ):
        with pytest.raises(ConfigFaults) as caught:
            check_client_certificates(config_with(**files))
        (fault,) = caught.value.faults
        assert fault.path == "channels[0]"
        assert next(iter(files.values())) in fault.found
