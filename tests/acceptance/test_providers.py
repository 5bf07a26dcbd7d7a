"""Every preset against a little server of its provider, told nothing but kind, key and address.

Clients of the preset's own protocols get what the server sent, byte for byte; the others its
translation. They fail as their provider does, which reaches the client in its own shape, costs only
what was delivered, and is tried elsewhere where that may help. Paths, keys, parameters, errors and
streams of the servers (`loadtests/simulator/providers/`) are those of the providers' documents.
"""

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from actors.wallet.money import NANO_PER_USD
from channels.credentials import NO_AUTH
from channels.dialects.base_resp import status_in
from channels.kinds import KINDS
from loadtests.rig.client import fetch
from loadtests.rig.deployment import Deployment, channel, model, shared_deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.processes import CommandFailed
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from loadtests.rig.upstream import key_of
from loadtests.rig.waiting import until
from loadtests.simulator.completions import Tokens
from loadtests.simulator.dialects.chat import HIDDEN, THINK_TAGS, ChatDialect
from loadtests.simulator.providers.table import PROVIDERS, Face, Failure, Provider
from tests.acceptance.dialogues.streamed import read_stream
from tests.acceptance.dialogues.turn import Turn, body_of, path_of
from tests.acceptance.dialogues.whole import WholeResult, read_whole
from tests.support.covering import covering
from tests.support.rows import each

pytestmark = pytest.mark.long

TRANSLATIONS = {
    ("chat", "messages"): "openai_chat_to_anthropic_messages",
    ("chat", "native"): "openai_chat_to_gemini_native",
    ("messages", "chat"): "anthropic_messages_to_openai_chat",
    ("native", "chat"): "gemini_native_to_openai_chat",
    ("native", "messages"): "anthropic_messages_to_gemini_native",
    ("responses", "native"): "openai_responses_to_gemini_native",
    ("responses", "chat"): "openai_responses_to_openai_chat",
    ("responses", "messages"): "openai_responses_to_anthropic_messages",
    ("chat", "responses"): "openai_chat_to_openai_responses",
    ("messages", "responses"): "anthropic_messages_to_openai_responses",
    ("native", "responses"): "gemini_native_to_openai_responses",
}
PROTOCOLS = ("chat", "messages", "responses", "native")


def cost_nano_usd(input_tokens: int, output_tokens: int, cached_tokens: int) -> int:
    """What the deployment's price makes of these tokens."""
    return (input_tokens - cached_tokens) * 1000 + cached_tokens * 100 + output_tokens * 10_000


# What the answer ended by, in each client's word.
FINISHES: Mapping[str, Mapping[str, str]] = {
    "stop": {"chat": "stop", "messages": "end_turn", "responses": "completed", "native": "STOP"},
    "calls": {
        "chat": "tool_calls",
        "messages": "tool_use",
        "responses": "completed",
        "native": "STOP",
    },
}

STATED = "Rain over the harbour, all day long."
THOUGHT = "She asks for the weather: look it up."
ZURICH = ("weather", {"city": "Zürich", "days": [1, 2.5, None], "deep": {"x": "}\n{"}})


def stated(*calls: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": arguments} for name, arguments in calls]


USAGE = {"input": 1000, "output": 100, "cached": 400, "cache_write": 0, "reasoning": 40}
WRONG = "wrong-key"


@dataclass(frozen=True)
class Way:
    """From a client, in one form of answer, to one protocol of a provider."""

    provider: Provider
    client: str
    form: str
    face: Face

    def __str__(self) -> str:
        return f"{self.provider.name}-{self.client}-{self.form}"

    @property
    def upstream(self) -> str:
        name: str = self.face.dialect.name
        return name

    @property
    def is_own(self) -> bool:
        return self.client == self.upstream


def at(name: str) -> str:
    """The channel to a provider; its id is no word of any message, for ids are masked there."""
    return f"at-{name}"


def face_for(provider: Provider, client: str) -> Face | None:
    """The face that a client's calls go to: its own protocol's, else the first translated to."""
    faces = {face.dialect.name: face for face in provider.faces}
    reached = (faces.get(to) for at, to in TRANSLATIONS if at == client)
    return faces.get(client) or next((face for face in reached if face is not None), None)


WAYS = [
    Way(provider, client, form, face)
    for provider in PROVIDERS.values()
    for client in PROTOCOLS
    if (face := face_for(provider, client)) is not None
    for form in ("whole", "stream")
]
STREAMS = [way for way in WAYS if way.form == "stream"]


@contextmanager
def presets_deployment(postgres: PostgresForTests) -> Iterator[Deployment]:
    """A deployment whose channels are known once the little servers have their ports."""
    translations = [f"{client}_to_{upstream}" for client, upstream in TRANSLATIONS]
    with shared_deployment(postgres, translations=translations) as built:
        channels, models = [], []
        for name, provider in PROVIDERS.items():
            base_url = built.upstream.play(name) + urlsplit(KINDS[name].base_url).path
            ours = {"kind": name, "base_url": base_url, "health": {"failures": 1000}}
            if KINDS[name].auth == NO_AUTH:
                channels.append({"id": f"open-{name}", **ours})
                models.append(
                    model(f"{name}-open", {"id": f"open-{name}", "as": provider.models[0]})
                )
                ours["auth"] = "bearer"
            channels += [
                {"id": at(name), "api_key": key_of(at(name)), **ours},
                {"id": f"{at(name)}-wrong", "api_key": WRONG, **ours},
            ]
            spare = f"spare-{name}"
            protocols = [face.dialect.name for face in provider.faces]
            channels.append(channel(spare, protocols=protocols, priority=2))
            there = provider.models[0]
            models += [
                model(name, {"id": at(name), "as": there}),
                model(f"{name}-or-spare", {"id": at(name), "as": there}, spare),
            ]
        built.write(channels=channels, models=models)
        built.gateway.popen.send_signal(signal.SIGHUP)
        until(lambda: built.events("configuration_reloaded"), what="the channels")
        yield built


def ask(payer: Tenant, way: Way, requested: Turn | None = None, *, model_id: str = "") -> Response:
    model_id = model_id or way.provider.name
    body = body_of(way.client, model_id, way.form, requested or Turn())
    reply = payer.client.send("POST", path_of(way.client, model_id, way.form), body)
    assert key_of(at(way.provider.name)) not in reply.body.decode()
    return reply


def result_of(way: Way, reply: Response) -> WholeResult:
    if way.form == "whole":
        return read_whole(way.client, reply.json)
    return read_stream(way.client, reply.body)


def sent_by(h: Deployment, way: Way) -> bytes:
    """What the little server answers to the very request that it was sent last."""
    sent = h.upstream.last_request()
    headers = {name: sent["headers"][name] for name in sent["headers"] if name != "content-length"}
    url = f"http://{sent['headers']['host']}{sent['path']}?{sent['query']}".rstrip("?")
    return fetch(url, "POST", sent["body"].encode(), headers=headers).body


def leaves(value: Any) -> Iterator[str]:
    """The texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from leaves(one)


def is_message_of(failure: Failure, message: str, model_id: str) -> bool:
    """Whether a message begins as one of the failure's texts does: addresses in it are masked."""
    texts = (text.replace("{model}", model_id) for text in leaves(failure.body))
    beginnings = [text.partition("{param}")[0].strip('"')[:20] for text in texts]
    return any(message.startswith(beginning) for beginning in beginnings if beginning)


# An upstream's status, and what it is called in each shape; other ones are the upstream's error.
BAD = "invalid_request_error"
NAMES: Mapping[int, tuple[tuple[str, str], str, str]] = {
    400: ((BAD, "invalid_request"), BAD, "INVALID_ARGUMENT"),
    401: (("authentication_error", "invalid_api_key"), "authentication_error", "UNAUTHENTICATED"),
    403: (("permission_error", "permission_denied"), "permission_error", "PERMISSION_DENIED"),
    404: ((BAD, "not_found"), "not_found_error", "NOT_FOUND"),
    413: (("api_error", "upstream_error"), "request_too_large", "INVALID_ARGUMENT"),
    422: ((BAD, "invalid_request"), BAD, "INVALID_ARGUMENT"),
    429: (("rate_limit_error", "rate_limit_exceeded"), "rate_limit_error", "RESOURCE_EXHAUSTED"),
    500: (("api_error", "upstream_error"), "api_error", "INTERNAL"),
    501: (("api_error", "upstream_error"), "api_error", "UNIMPLEMENTED"),
    504: (("api_error", "upstream_error"), "api_error", "DEADLINE_EXCEEDED"),
    529: (("api_error", "upstream_error"), "overloaded_error", "UNAVAILABLE"),
}


def meant(failure: Failure) -> int:
    """The status that a client is told; an error in a 200 means one, too."""
    return status_in(failure.body) if failure.status == 200 else failure.status


def check_error(reply: Response, way: Way, failure: Failure) -> None:
    """The error has the client's own shape, the provider's status and its sentence."""
    status = meant(failure)
    assert reply.status == status
    other = "UNAVAILABLE" if status >= 500 else "UNKNOWN"
    other = "RESOURCE_EXHAUSTED" if status == 402 else other
    chat, messages, gemini = NAMES.get(
        status, (("api_error", "upstream_error"), "api_error", other)
    )
    whole, error = reply.json, reply.json["error"]
    assert is_message_of(failure, error["message"], way.provider.models[0]) or not failure.body
    if way.client == "messages":
        assert (whole["type"], error["type"]) == ("error", messages)
    elif way.client == "native":
        assert (error["code"], error["status"]) == (reply.status, gemini)
    else:
        assert (error["type"], error["code"]) == chat


KEYLESS = [way for way in WAYS if way.is_own and KINDS[way.provider.name].auth == NO_AUTH]


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests) -> Iterator[Deployment]:
    """The deployment of the presets, which this module has alone."""
    with presets_deployment(postgres) as built:
        yield built


@pytest.fixture(scope="module")
def payer(shared: Deployment) -> Tenant:
    return shared.tenant(nano_usd=1000 * NANO_PER_USD)


CASES: Mapping[str, tuple[dict[str, Any], Turn]] = {
    "text": ({"text": STATED}, Turn()),
    "calls": ({"tool_calls": stated(ZURICH, ZURICH)}, Turn(has_tools=True)),
    "thoughts": ({"text": STATED, "reasoning_text": THOUGHT}, Turn(thinks=True)),
    "results": ({"text": STATED}, Turn(has_results=True)),
}


def spoken(way: Way, directive: Mapping[str, Any]) -> str:
    """What is to be read of an answer; some do not keep their thoughts apart from it."""
    text: str = directive.get("text", "")
    is_tagged = isinstance(chat := way.face.dialect, ChatDialect) and (
        chat.traits.thoughts == THINK_TAGS
    )
    thought = directive.get("reasoning_text")
    return f"<think>\n{thought}\n</think>\n\n{text}" if is_tagged and thought else text


def shown(way: Way, directive: Mapping[str, Any]) -> str:
    """The thoughts that are to be read of an answer, apart from its text."""
    chat = way.face.dialect
    if isinstance(chat, ChatDialect) and chat.traits.thoughts in (HIDDEN, THINK_TAGS):
        return ""
    thought: str = directive.get("reasoning_text", "")
    return thought


def counts_reasoning(way: Way) -> bool:
    """Whether the tokens of thoughts are told of apart, by provider and to the client."""
    chat = way.face.dialect
    if "messages" in (way.client, way.upstream):
        return False
    tokens = Tokens(input=9, output=9, cached=0, cache_write=0, reasoning=5)
    return not isinstance(chat, ChatDialect) or "reasoning" in str(chat.traits.usage_of(tokens))


REQUESTED = covering(
    [(way, case) for way in WAYS for case in CASES],
    lambda row: (row[0].provider.name, row[1]),
    lambda row: (row[0].provider.name, row[0].client),
    lambda row: (row[0].client, row[0].upstream, row[0].form, row[1]),
)


@each("way, case", REQUESTED)
def test_answer_is_served_and_charged_as_stated(
    h: Deployment, payer: Tenant, way: Way, case: str
) -> None:
    directive, requested = CASES[case]
    cached = 400 if way.face.counts_cached else 0
    ends_by = "calls" if "tool_calls" in directive else "stop"
    h.upstream.fault(at(way.provider.name), usage=USAGE, **directive)
    before = h.balance_nano_usd(payer)
    reply = ask(payer, way, requested)
    assert reply.status == 200, reply
    if way.is_own:
        assert reply.body == sent_by(h, way)
    else:
        result = result_of(way, reply)
        assert result.has_end
        assert result.error is None
        assert result.text == spoken(way, directive)
        stated_calls = directive.get("tool_calls", ())
        assert result.calls == [(one["name"], one["arguments"]) for one in stated_calls]
        assert result.thinking == shown(way, directive)
        assert result.usage == (1000, 100, cached)
        assert result.finish == FINISHES[directive.get("finish_reason", ends_by)][way.client]
        assert result.reasoning == (40 if counts_reasoning(way) else 0)
    row = h.row(reply.trace)
    tokens = (row["input_tokens"], row["output_tokens"], row["cached_tokens"])
    assert (row["status"], tokens) == ("success", (1000, 100, cached))
    cost = cost_nano_usd(1000, 100, cached)
    assert row["cost_nano_usd"] == cost
    assert before - h.balance_nano_usd(payer) == cost
    sent = h.upstream.last_request()
    assert payer.key not in json.dumps(sent)


@each("way", KEYLESS)
def test_server_that_wants_no_key_needs_none(h: Deployment, payer: Tenant, way: Way) -> None:
    reply = ask(payer, way, model_id=f"{way.provider.name}-open")
    assert reply.status == 200, reply
    assert not {"authorization", "x-api-key"} & h.upstream.last_request()["headers"].keys()


def test_probe_lists_the_models_of_each_and_tells_of_wrong_keys(h: Deployment) -> None:
    with pytest.raises(CommandFailed) as raised:  # some keys are wrong
        h.gw("check-config", "--probe")
    probes = {one["channel"]: one for one in raised.value.answer["probes"]}
    for name, provider in PROVIDERS.items():
        if provider.listing is not None:
            assert probes[at(name)]["ok"], probes[at(name)]
            assert probes[at(name)]["models"] == len(provider.models)
            assert not probes[f"{at(name)}-wrong"]["ok"]
            refused = provider.faces[0].failures["bad_key"]
            assert probes[f"{at(name)}-wrong"]["status"] == refused.status
    assert WRONG not in json.dumps(probes)
    assert "key-of-" not in json.dumps(probes)


def test_every_face_of_a_preset_is_there() -> None:
    for name, provider in PROVIDERS.items():
        spoken = set(KINDS[name].protocols) & set(PROTOCOLS)
        assert {face.dialect.name for face in provider.faces} == spoken


# How a body is read depends on the provider and the status, how it is told on the way.
FAILURES = covering(
    [(way, one) for way in WAYS for one in way.face.failures if one != "no_key"],
    lambda row: (row[0].provider.name, meant(row[0].face.failures[row[1]])),
    lambda row: (row[0].client, row[0].upstream, row[0].form),
)
BROKEN = covering(STREAMS, lambda way: way.provider.name, lambda way: (way.client, way.upstream))


def put_back(payer: Tenant, way: Way) -> None:
    """Have a key in use that an earlier test has had set aside: an answered call does that."""
    assert ask(payer, way).status == 200


@each("way, situation", FAILURES)
def test_failure_has_the_clients_shape_and_costs_nothing(
    h: Deployment, payer: Tenant, way: Way, situation: str
) -> None:
    failure = way.face.failures[situation]
    h.upstream.reset()
    h.upstream.fault(at(way.provider.name), situation=situation)
    before = h.balance_nano_usd(payer)
    reply = ask(payer, way)
    check_error(reply, way, failure)
    stated = failure.headers.get("retry-after") if failure.status in (429, 503) else None
    if "retryDelay" in json.dumps(failure.body):  # of Google, which has no header for it
        stated = "35"
    spoken = reply.headers.get("retry-after")
    assert spoken == stated or (failure.status == 503 and stated is None and spoken == "1")
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("error", 0)
    assert h.balance_nano_usd(payer) == before
    assert h.held_nano_usd(payer) == 0


@each("way", BROKEN)
def test_stream_that_fails_in_its_middle_has_an_error_and_is_settled(
    h: Deployment, payer: Tenant, way: Way
) -> None:
    words = "x" * 400
    h.upstream.fault(at(way.provider.name), text=words, usage=USAGE, error_event=40)
    reply = ask(payer, way)
    assert reply.status == 200, reply
    if way.is_own:
        assert reply.body == sent_by(h, way)
    else:
        result = result_of(way, reply)
        assert result.error is not None
        assert not result.has_end
        assert 0 < len(result.text) < len(words)
    row = h.row(reply.trace)
    assert row["status"] == "error"
    assert row["error_message"]
    assert row["cost_nano_usd"] > 0
    assert h.held_nano_usd(payer) == 0


@each("way", BROKEN)
def test_stream_that_fails_at_once_has_sent_nothing(h: Deployment, payer: Tenant, way: Way) -> None:
    h.upstream.reset()
    put_back(payer, way)
    h.upstream.fault(at(way.provider.name), error_event=0)
    reply = ask(payer, way, model_id=f"{way.provider.name}-or-spare")
    assert reply.status == 200, reply
    assert result_of(way, reply).has_end
    row = h.row(reply.trace)
    assert (row["status"], len(row["attempts"])) == ("success", 1)
    alone = ask(payer, way)
    if way.is_own:  # nobody else can be asked: the client's, as it came
        assert (alone.status, alone.body) == (200, sent_by(h, way))
    else:
        assert alone.status == 502
    row = h.row(alone.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("error", 0)
