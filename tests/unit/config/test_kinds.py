"""What `kind` of a channel fills in, and what the channel's own words leave of it."""

from datetime import date

from channels.dialects.table import DIALECTS
from channels.families import FAMILIES, PROTOCOLS
from channels.kinds import KINDS, Kind
from channels.registry import ChannelSpec
from gw.config.upstream import PROVED
from tests.support.rows import cases, each
from tests.unit.config.reading import places_of, read

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
