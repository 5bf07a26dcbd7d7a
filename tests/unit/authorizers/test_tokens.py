"""Tokens of clouds: obtained, refreshed, signed."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from channels.authorizers.azure import AzureAuthorizer
from channels.authorizers.google import GoogleAuthorizer
from channels.authorizers.specs import AuthorizerSpec, AzureSpec, GoogleSpec
from channels.errors import CredentialsUnavailable
from channels.http.interfaces import Authorizer, UpstreamRequest
from channels.http.transport import Proxy, Transport
from loadtests.simulator.cloud.credentials import GOOGLE_ACCOUNT
from tests.support.rows import cases
from tests.unit.authorizers.clouds import Cloud, cloud
from tests.unit.channels.raw_server import Peer, RawServer

VERTEX = "/v1/projects/p/locations/us-east5/publishers/google/models/g:generateContent"
AZURE = "/openai/v1/chat/completions"
GEMINI_BODY = b'{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}'
CHAT_BODY = b'{"model":"m","messages":[{"role":"user","content":"Hello"}]}'


class Clock:
    """Monotonic seconds, set by hand."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def google(there: Cloud, clock: Clock, **more: Any) -> Authorizer:
    key = {**there.simulator.engine.cloud.issuer.google_key(there.simulator.base_url), **more}
    return GoogleAuthorizer(
        GoogleSpec(info=json.dumps(key)), there.on_failure, there.obtained, monotonic=clock
    )


def azure(there: Cloud, clock: Clock, **more: Any) -> Authorizer:
    given = {"client_secret": "secret-of-app", "authority": there.simulator.base_url, **more}
    return AzureAuthorizer(
        AzureSpec("tenant", "app", **given), there.on_failure, there.obtained, monotonic=clock
    )


Make = Callable[..., Authorizer]
BOTH = pytest.mark.parametrize(
    ("make", "path", "body", "owner"),
    [(google, VERTEX, GEMINI_BODY, GOOGLE_ACCOUNT), (azure, AZURE, CHAT_BODY, "app")],
    ids=["google", "azure"],
)


def protocols(there: Cloud) -> list[str]:
    return [one.protocol for one in there.simulator.requests()]


@BOTH
async def test_token_is_fetched_once_and_put_to_each_request(
    make: Make, path: str, body: bytes, owner: str
) -> None:
    async with cloud() as there:
        authorizer = make(there, Clock())
        for _ in range(3):
            assert (await there.send(authorizer, path, body))[0] == 200
        assert [one.endswith("-token") for one in protocols(there)] == [True, False, False, False]
        assert there.simulator.requests(1)[0].api_key == owner


@BOTH
async def test_tokens_and_what_they_are_had_by_are_known_as_secrets(
    make: Make, path: str, body: bytes, owner: str, tmp_path: Path
) -> None:
    async with cloud() as there:
        clock, tokens = Clock(), []
        authorizer = make(there, clock)
        for _ in range(4):
            request = UpstreamRequest("POST", there.simulator.base_url + path, (), body)
            proof = (await authorizer.proof(request, there.http)).decode()
            tokens.append(proof.removeprefix("Authorization: Bearer ").strip())
            clock.seconds += 7200.0
        assert len(set(tokens)) == 4
        assert set(tokens) & set(there.obtained.texts) == set(tokens[-2:])
        key = there.simulator.engine.cloud.issuer.google_key(there.simulator.base_url)
        file = tmp_path / "file"
        file.write_text(json.dumps(key) if make is google else "assertion-of-app")
        if make is google:
            authorizer = GoogleAuthorizer(
                GoogleSpec(file=str(file)), there.on_failure, there.obtained
            )
        else:
            authorizer = azure(there, clock, client_secret="", token_file=str(file))
        await authorizer.proof(request, there.http)
        known = key["private_key"] if make is google else "assertion-of-app"
        assert known in set(there.obtained.texts)


@BOTH
async def test_token_that_was_withdrawn_is_fetched_anew_within_the_request(
    make: Make, path: str, body: bytes, owner: str
) -> None:
    async with cloud() as there:
        clock = Clock()
        authorizer = make(there, clock)
        await there.send(authorizer, path, body)
        there.simulator.engine.cloud.issuer.withdraw()
        # A new one would be refused as well, as far as anybody can tell.
        assert (await there.send(authorizer, path, body))[0] == 401
        clock.seconds = 61.0
        assert (await there.send(authorizer, path, body))[0] == 200
        assert len([one for one in protocols(there) if one.endswith("-token")]) == 2


@BOTH
async def test_server_that_hands_out_no_token_is_reported(
    make: Make, path: str, body: bytes, owner: str
) -> None:
    async with cloud() as there:
        authorizer = make(there, Clock())
        # Google's library tries again by itself where that is worth it: a 400 is not.
        there.simulator.put_faults({"status": 400, "message": "not today"}, api_key=owner)
        with pytest.raises(CredentialsUnavailable) as raised:
            await there.send(authorizer, path, body)
        assert "not today" in raised.value.detail
        assert there.notices == [raised.value.detail]
        there.simulator.clear_faults(api_key=owner)
        assert (await there.send(authorizer, path, body))[0] == 200


async def test_key_file_is_read_as_well_as_text(tmp_path: Path) -> None:
    async with cloud() as there:
        key = there.simulator.engine.cloud.issuer.google_key(there.simulator.base_url)
        (tmp_path / "key.json").write_text(json.dumps(key))
        spec = GoogleSpec(file=str(tmp_path / "key.json"))
        authorizer = GoogleAuthorizer(spec, there.on_failure, there.obtained)
        assert (await there.send(authorizer, VERTEX, GEMINI_BODY))[0] == 200
        missing = GoogleAuthorizer(
            GoogleSpec(file=str(tmp_path / "other.json")), there.on_failure, there.obtained
        )
        with pytest.raises(CredentialsUnavailable) as raised:
            await there.send(missing, VERTEX, GEMINI_BODY)
        assert "No such file" in raised.value.detail


async def test_proxy_of_the_channel_goes_before_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nhe")

    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with cloud() as there, RawServer(refuse) as ours, RawServer(refuse) as others:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{others.port}")
        way = Transport(Proxy("127.0.0.1", ours.port))
        request = UpstreamRequest("POST", there.simulator.base_url, (), b"", way)
        with pytest.raises(CredentialsUnavailable):
            await google(there, Clock()).proof(request, there.http)
        assert (ours.connections, others.connections) == (1, 0)


async def test_workloads_token_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    async with cloud() as there:
        authorizer = azure(there, Clock(), client_secret="", token_file=str(path))
        with pytest.raises(CredentialsUnavailable):
            await there.send(authorizer, AZURE, CHAT_BODY)
        path.write_text("assertion-of-app\n")
        assert (await there.send(authorizer, AZURE, CHAT_BODY))[0] == 200


async def test_pipe_in_place_of_a_file_holds_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    async with cloud() as there:
        for authorizer in (
            azure(there, Clock(), client_secret="", token_file=str(path)),
            GoogleAuthorizer(GoogleSpec(file=str(path)), there.on_failure, there.obtained),
        ):
            with pytest.raises(CredentialsUnavailable) as raised:
                await there.send(authorizer, AZURE, CHAT_BODY)
            assert "not a regular file" in raised.value.detail


@cases(
    "body",
    "no JSON",
    "[]",
    '{"access_token": 1}',
    '{"access_token": "t"}',
    '{"expires_in": 5}',
    '{"access_token": "a\\nb", "expires_in": 5}',
    '{"access_token": "t", "expires_in": -1}',
)
async def test_answer_of_the_token_server_that_is_none_is_reported(body: str) -> None:
    async with cloud() as there:
        there.simulator.put_faults({"body": body}, api_key="app")
        with pytest.raises(CredentialsUnavailable):
            await there.send(azure(there, Clock()), AZURE, CHAT_BODY)
        assert protocols(there) == ["entra-token"] or protocols(there) == ["unknown"]


async def test_nobody_at_the_token_servers_address_is_reported() -> None:
    async with cloud() as there:
        authorizer = azure(there, Clock(), authority="http://127.0.0.1:1")
        with pytest.raises(CredentialsUnavailable) as raised:
            await there.send(authorizer, AZURE, CHAT_BODY)
        assert raised.value.detail.startswith("azure-ad: ")
        assert protocols(there) == []


def test_secrets_are_in_no_repr() -> None:
    info = json.dumps({"type": "service_account", "private_key": "hidden-1"})
    specs: list[AuthorizerSpec] = [GoogleSpec(info=info), AzureSpec("t", "c", "hidden-2")]
    assert "hidden" not in repr(specs)
    assert [one.secrets for one in specs] == [("hidden-1",), ("hidden-2",)]
