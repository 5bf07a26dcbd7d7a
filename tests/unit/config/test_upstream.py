"""Channels of a configuration: addresses, paths, keys and fields."""

from channels.http.interfaces import UpstreamRequest
from channels.redaction import key_spellings
from channels.registry import ChannelSpec
from gw.config.config import Config
from gw.config.live import LiveConfig
from metrics.log_redaction import redact
from tests.support.rows import cases, each
from tests.unit.config.reading import channel, check_fault, fault_of, places_of, read

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


def test_version_that_would_stand_in_the_path_twice_is_reported() -> None:
    text = GOOD.replace("https://a.example", "https://a.example/api/v1")
    ((path, message),) = cautions_of(text)
    assert path == "channels[0].base_url"
    assert "https://a.example/api/v1/v1/chat/completions" in message
    own = f"{text}    paths: {{chat: /api/v1/chat}}"
    assert cautions_of(own) == []


def test_key_that_is_sent_nowhere_is_reported() -> None:
    ((path, message),) = cautions_of(f"{GOOD}    auth: none")
    assert (path, message) == ("channels[0].api_key", "not sent anywhere: auth is none")


def test_secret_of_a_header_that_is_too_short_to_be_masked_is_reported() -> None:
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

    stated = "first-key second-key third-key"
    live = LiveConfig(keyed("first-key"))
    assert redact(stated) == "[redacted] second-key third-key"
    live.swap(keyed("second-key"))
    assert redact(stated) == live.redact(stated) == "[redacted] [redacted] third-key"
    live.swap(keyed("third-key"))
    assert redact(stated) == "first-key [redacted] [redacted]"
