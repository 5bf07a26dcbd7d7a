"""Addresses: what may be reached, how channels are addressed, links that end."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.address_scope import allowing, scope_of
from channels.dialects.table import CHAT_DIALECTS, DIALECTS
from channels.http.interfaces import UpstreamRequest
from channels.links import expires_at, is_link, lasts_until
from channels.media.exchanges import addressed
from channels.media.model import MediaRequest
from channels.registry import ChannelSpec
from gw.media.user_urls import fault_of
from tests.support.rows import cases, each
from tests.support.specs import make_channel

CHANNEL = make_channel("one", base_url="https://up.example:8443", api_key="sk-1")
TRACE = (("traceparent", "00-1-2-01"),)
BEARER = ("Authorization", "Bearer sk-1")
SENT = {
    "chat": ("/v1/chat/completions", (BEARER,)),
    "messages": ("/v1/messages", (("x-api-key", "sk-1"), ("anthropic-version", "2023-06-01"))),
    "responses": ("/v1/responses", (BEARER,)),
    "native": ("/v1beta/models/m:generateContent", (("x-goog-api-key", "sk-1"),)),
    "images": ("/v1/images/generations", (BEARER,)),
    "rerank": ("/v1/rerank", (BEARER,)),
    "moderations": ("/v1/moderations", (BEARER,)),
}


@each("protocol", DIALECTS)
def test_request_goes_to_its_path_with_the_channels_key(protocol: str) -> None:
    path, own = SENT[protocol]
    accepted = "application/json"
    if protocol in CHAT_DIALECTS:
        accepted += ", text/event-stream"
    request = DIALECTS[protocol].address.request(
        CHANNEL, b"{}", protocol=protocol, upstream_model="m", stream=False, extra_headers=TRACE
    )
    assert (request.method, request.body) == ("POST", b"{}")
    assert request.url == f"https://up.example:8443{path}"
    shared = (("Content-Type", "application/json"), ("Accept", accepted), *TRACE)
    assert request.headers == (*own, *shared)


def test_messages_request_has_the_clients_version() -> None:
    request = request_of(CHANNEL, "messages", own={"anthropic-version": "2026-10-21"})
    assert request.headers[:2] == (("x-api-key", "sk-1"), ("anthropic-version", "2026-10-21"))


@cases(
    "model, stream, path",
    ("gemini-3.1-pro", False, "gemini-3.1-pro:generateContent"),
    ("gemini-3.1-pro", True, "gemini-3.1-pro:streamGenerateContent?alt=sse"),
    ("../a b?c#d:e", False, "..%2Fa%20b%3Fc%23d%3Ae:generateContent"),
    ("é", True, "%C3%A9:streamGenerateContent?alt=sse"),
)
def test_gemini_request_has_the_model_in_its_path(model: str, stream: bool, path: str) -> None:
    address = DIALECTS["native"].address
    request = address.request(
        CHANNEL, b"{}", protocol="native", upstream_model=model, stream=stream
    )
    assert request.url == f"https://up.example:8443/v1beta/models/{path}"


# --- What may be fetched from ---

INSIDE = [
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "fc00::1",
    "fd12:3456::1",
    "::ffff:10.0.0.1",
    "::ffff:192.168.1.1",
    "2002:0a00:0001::1",  # 6to4 of 10.0.0.1
    "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "2001:db8::1",
    "::10.0.0.1",
    "::ffff:0:10.0.0.1",
    "fec0::1",
    "64:ff9b:1::808:808",
    "2001:0:4136:e378:8000:63bf:f7f7:f7f7",  # Teredo of 8.8.8.8
]
HERE = ["127.0.0.1", "127.255.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "::127.0.0.1"]
NEVER = [
    "169.254.169.254",
    "fe80::1",
    "fe80::1%eth0",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "::ffff:169.254.169.254",
    "no address",
    "",
]
OUTSIDE = ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]


@each("address", INSIDE + HERE + NEVER)
def test_a_channel_outside_leads_to_nothing_within(address: str) -> None:
    assert not allowing(["1.2.3.4"])(address)
    assert not allowing([])(address)


@each("address", OUTSIDE)
def test_everybody_may_lead_outside(address: str) -> None:
    for channel in ([], ["1.2.3.4"], ["10.0.0.7"], ["127.0.0.1"]):
        assert allowing(channel)(address)


@each("address", NEVER)
def test_nobody_leads_to_what_is_neither(address: str) -> None:
    for channel in ("10.0.0.7", "127.0.0.1", "fd00::7"):
        assert not allowing([channel])(address)


def test_a_channel_within_leads_to_its_own_kind() -> None:
    assert allowing(["10.0.0.7"])("192.168.1.1")
    assert not allowing(["10.0.0.7"])("127.0.0.1")
    assert allowing(["127.0.0.1"])("::1")
    assert not allowing(["127.0.0.1"])("10.0.0.7")
    assert allowing(["169.254.1.1"])("169.254.1.1")
    assert not allowing(["169.254.1.1"])("169.254.169.254")


@each("address", INSIDE + HERE + NEVER + OUTSIDE)
def test_links_of_clients_are_judged_by_the_same_table(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    assert (fault_of(f"https://{host}/") is None) == (scope_of(address) == "global")


def test_scopes_have_names() -> None:
    result = [scope_of(one) for one in ("1.1.1.1", "10.0.0.1", "::1", "fe80::1")]
    assert result == ["global", "private", "loopback", "other"]


# --- Requests of channels that say themselves where and how they are reached (contract §2) ---

PREFIX = "https://up.example/api/v2"


def channel(**changes: Any) -> ChannelSpec:
    return make_channel("one", **{"base_url": PREFIX, "api_key": "sk-1", **changes})


def request_of(
    spec: ChannelSpec, protocol: str = "chat", *, stream: bool = False, **more: Any
) -> UpstreamRequest:
    address = DIALECTS[protocol].address
    return address.request(
        spec, b"{}", protocol=protocol, upstream_model="a/b", stream=stream, **more
    )


def test_path_of_a_protocol_takes_the_place_of_prefix_and_own_path() -> None:
    spec = channel(
        paths={
            "chat": "/openai/deployments/{model}/chat/completions",
            "native": "/v1/publishers/google/models/{model}",
        },
        query=(("api-version", "2024-10-21"),),
    )
    assert request_of(spec).url == (
        "https://up.example/openai/deployments/a%2Fb/chat/completions?api-version=2024-10-21"
    )
    assert request_of(spec, "messages").url == f"{PREFIX}/v1/messages?api-version=2024-10-21"
    assert request_of(spec, "native", stream=True).url == (
        "https://up.example/v1/publishers/google/models/a%2Fb:streamGenerateContent"
        "?alt=sse&api-version=2024-10-21"
    )


WAYS = {
    "bearer": ("Authorization", "Bearer sk-1"),
    "x-api-key": ("x-api-key", "sk-1"),
    "api-key": ("api-key", "sk-1"),
    "x-goog-api-key": ("x-goog-api-key", "sk-1"),
}


@each("protocol", DIALECTS)
@each("way", WAYS)
def test_key_goes_the_channels_way_in_every_protocol(protocol: str, way: str) -> None:
    sent = request_of(channel(auth=way), protocol)
    assert sent.headers[0] == WAYS[way]
    assert "sk-1" not in repr(sent.headers[1:]) + sent.url


@each("protocol", DIALECTS)
def test_key_goes_in_the_query(protocol: str) -> None:
    sent = request_of(channel(auth="query:key", api_key="a/b +"), protocol)
    assert sent.url.endswith("?key=a%2Fb+%2B")
    assert "a/b" not in repr(sent.headers)


@cases("changes", {"auth": "none"}, {"api_key": ""})
@each("protocol", DIALECTS)
def test_no_key_is_sent_where_there_is_none(protocol: str, changes: dict[str, str]) -> None:
    names = {name.lower() for name, _ in request_of(channel(**changes), protocol).headers}
    assert names.isdisjoint({"authorization", "x-api-key", "x-goog-api-key", "api-key"})


def test_fixed_headers_take_the_place_of_others() -> None:
    spec = channel(headers=(("X-Team", "a"), ("Anthropic-Version", "2024-01-01")))
    sent = request_of(
        spec,
        "messages",
        own={"anthropic-version": "2026-10-21"},
        extra_headers=(("anthropic-beta", "b"), ("x-team", "of-the-client")),
    )
    assert sent.headers == (
        ("x-api-key", "sk-1"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("X-Team", "a"),
        ("Anthropic-Version", "2024-01-01"),
        ("anthropic-beta", "b"),
    )


def test_what_is_the_same_for_every_request_is_written_once() -> None:
    spec = channel(headers=(("X-Team", "a"),), query=(("v", "1"),))
    first, second = request_of(spec), request_of(spec)
    assert first.url is second.url
    assert first.headers is second.headers


def test_media_request_is_addressed_likewise() -> None:
    spec = channel(auth="query:key", headers=(("X-Team", "a"),), query=(("v", "1"),))
    requested = MediaRequest(method="GET", path="/v1/videos/7", query=(("page", "2"),))
    sent = addressed(spec, requested)
    assert sent.url == f"{PREFIX}/v1/videos/7?page=2&v=1&key=sk-1"
    assert sent.headers == (("X-Team", "a"),)
    usual = addressed(channel(), MediaRequest(method="POST", path="/v1/videos", body=b"{}"))
    assert usual.url == f"{PREFIX}/v1/videos"
    assert usual.headers == (("Authorization", "Bearer sk-1"), ("Content-Type", "application/json"))


# --- When a signed link ends, by the words of those who sign them ---

NOW = 1_795_000_000.0  # in November 2026
DAY = 86_400.0


@cases(
    "query, end",
    ("X-Amz-Date=20261118T120000Z&X-Amz-Expires=3600&X-Amz-Signature=a", 1_795_006_800),
    ("x=1&X-Tos-Date=20261118T120000Z&X-Tos-Expires=86400", 1_795_089_600),
    ("X-Goog-Expires=60&X-Goog-Date=20261118T120000Z", 1_795_003_260),
    ("Expires=1795050000&OSSAccessKeyId=a&Signature=b", 1_795_050_000),
    ("se=2026-11-19T00%3A00%3A00Z&sig=b", 1_795_046_400),
    ("se=2026-11-19T00%3A00%3A00&sig=b", 1_795_046_400),
    ("se=2026-11-19", None),
    ("X-Amz-Expires=3600", None),
    ("X-Amz-Date=yesterday&X-Amz-Expires=3600", None),
    ("Expires=soon", None),
    ("Expires=" + "9" * 400, None),
    ("", None),
)
def test_end_of_a_link(query: str, end: float | None) -> None:
    assert expires_at(f"https://a.example/b.png?{query}") == end


def test_first_end_of_several_counts_and_a_silent_link_lasts_as_usual() -> None:
    result = f"https://a.example/1?Expires={NOW + 60:.0f}"
    silent = "https://a.example/2"
    assert lasts_until([result, silent], now=NOW, usual_seconds=DAY) == NOW + 60
    assert lasts_until([silent], now=NOW, usual_seconds=DAY) == NOW + DAY
    assert lasts_until([], now=NOW, usual_seconds=DAY) is None


@cases("end", 0, 86400, NOW, 10**15)
def test_end_that_cannot_be_is_not_believed(end: float) -> None:
    link = f"https://a.example/1?Expires={end:.0f}"
    assert lasts_until([link], now=NOW, usual_seconds=DAY) == NOW + DAY


def test_what_is_no_link_is_told_from_one() -> None:
    assert is_link("HTTPS://a.example/b")
    for text in ("data:image/png;base64,AAAA", "a.png", "https://a b", "https://a\n", "x" * 9):
        assert not is_link(text)
    assert not is_link("https://" + "a" * 9000)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    end = lasts_until([f"https://a.example/?{text}", text], now=NOW, usual_seconds=DAY)
    assert end is not None
    assert NOW < end <= NOW + 367 * DAY
