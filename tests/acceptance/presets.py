"""Every preset, with a little server of its provider, in one house; and what is asked of them.

The servers are `loadtests/simulator/providers/`: their paths, keys, parameters, errors, streams and
usage are those of the providers' documentation.
"""

import signal
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from channels.dialects.error_body import status_in
from channels.kinds import KINDS
from channels.registry import NO_AUTH
from loadtests.simulator.providers.table import PROVIDERS, Face, Failure, Provider
from tests.acceptance.dialogues.asked import Asked, body_of, path_of
from tests.acceptance.dialogues.cases import PROTOCOLS, TRANSLATIONS
from tests.acceptance.dialogues.streamed import read_stream
from tests.acceptance.dialogues.whole import Told, read_whole
from tests.support.client import Reply
from tests.support.house import House, channel, model, shared_house
from tests.support.postgres import PostgresForTests
from tests.support.tenants import Tenant
from tests.support.upstream import key_of
from tests.support.waiting import PATIENCE_SECONDS, until

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
def presets_house(postgres: PostgresForTests) -> Iterator[House]:
    """A house whose channels are known once the little servers have their ports."""
    translations = [f"{client}_to_{upstream}" for client, upstream in TRANSLATIONS]
    with shared_house(postgres, translations=translations) as built:
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


def ask(payer: Tenant, way: Way, asked: Asked | None = None, *, model_id: str = "") -> Reply:
    model_id = model_id or way.provider.name
    body = body_of(way.client, model_id, way.form, asked or Asked())
    reply = payer.client.send("POST", path_of(way.client, model_id, way.form), body)
    assert key_of(at(way.provider.name)) not in reply.body.decode()
    return reply


def told_by(way: Way, reply: Reply) -> Told:
    if way.form == "whole":
        return read_whole(way.client, reply.json)
    return read_stream(way.client, reply.body)


def sent_by(h: House, way: Way) -> bytes:
    """What the little server answers to the very request that it was sent last."""
    sent = h.upstream.last_request()
    headers = {name: sent["headers"][name] for name in sent["headers"] if name != "content-length"}
    url = f"http://{sent['headers']['host']}{sent['path']}?{sent['query']}".rstrip("?")
    request = urllib.request.Request(url, data=sent["body"].encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        body: bytes = answer.read()
    return body


def leaves(value: Any) -> Iterator[str]:
    """The texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from leaves(one)


def is_said_by(failure: Failure, message: str, model_id: str) -> bool:
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


def check_error(reply: Reply, way: Way, failure: Failure) -> None:
    """The error has the client's own shape, the provider's status and its sentence."""
    status = meant(failure)
    assert reply.status == status
    other = "UNAVAILABLE" if status >= 500 else "UNKNOWN"
    chat, messages, gemini = NAMES.get(
        status, (("api_error", "upstream_error"), "api_error", other)
    )
    whole, error = reply.json, reply.json["error"]
    assert is_said_by(failure, error["message"], way.provider.models[0]) or not failure.body
    if way.client == "messages":
        assert (whole["type"], error["type"]) == ("error", messages)
    elif way.client == "native":
        assert (error["code"], error["status"]) == (reply.status, gemini)
    else:
        assert (error["type"], error["code"]) == chat
