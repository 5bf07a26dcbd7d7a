"""Signatures of AWS, checked by the simulator, which computes them by itself."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from channels.authorizers import aws
from channels.authorizers.aws import AwsAuthorizer
from channels.authorizers.specs import AwsSpec
from channels.errors import CredentialsUnavailable
from channels.http.interfaces import UpstreamRequest
from channels.registry import ObtainedSecrets
from tests.support.rows import cases
from tests.unit.authorizers.clouds import CLAUDE, Cloud, cloud

INVOKE = "/model/anthropic.claude-sim-v1%3A0/invoke"
LENT = AwsSpec(
    "us-east-1",
    access_key_id="ASIASIM",
    secret_access_key="secret-of-ASIASIM",
    session_token="token-of-ASIASIM",
)
OWN = AwsSpec("eu-west-3", access_key_id="AKIASIM", secret_access_key="secret-of-AKIASIM")


def body_of(text: str = "Hello") -> bytes:
    return CLAUDE % json.dumps({"role": "user", "content": text}).encode()


def signer(there: Cloud, spec: AwsSpec = OWN) -> AwsAuthorizer:
    return AwsAuthorizer(spec, there.on_failure, there.obtained)


@cases("spec", OWN, LENT)
@cases(
    "path",
    INVOKE,
    "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.x/invoke",
    "/model/~a_b.c-d%20e/invoke?b=2&a=1%2F3&a=0&c=",
)
async def test_signature_is_the_one_that_aws_describes(spec: AwsSpec, path: str) -> None:
    async with cloud() as there:
        authorizer = signer(there, spec)
        status, body = await there.send(
            authorizer, path, body_of(), ("X-Amz-Of-Ours", " a   b "), ("X-Team", "a")
        )
        assert (status, b"Hello" in body) == (200, True), body
        got, models = await there.send(authorizer, "/foundation-models", method="GET")
        assert (got, b"claude-sim" in models) == (200, True)


async def test_large_body_is_hashed_in_a_thread_and_signed_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[int] = []
    to_thread = asyncio.to_thread

    async def counted(work: Callable[..., Any], *arguments: Any) -> Any:
        threads.append(len(arguments))
        return await to_thread(work, *arguments)

    async with cloud() as there:
        authorizer = signer(there)
        await there.send(authorizer, INVOKE, body_of())
        monkeypatch.setattr(asyncio, "to_thread", counted)
        for size, expected in ((10, []), (aws.HASHED_AT_ONCE_BYTES_MAX, [1])):
            threads.clear()
            status, _ = await there.send(authorizer, INVOKE, body_of("x" * size))
            assert (status, threads) == (200, expected)


async def test_wrong_secret_is_refused_and_not_tried_again() -> None:
    async with cloud() as there:
        spec = AwsSpec("us-east-1", access_key_id="AKIASIM", secret_access_key="another")
        status, body = await there.send(signer(there, spec), INVOKE, body_of())
        assert (status, b"does not match" in body) == (403, True)
        assert len(there.simulator.requests()) == 1


@cases("ahead_seconds", 3600.0, -3600.0)
async def test_clock_that_is_off_is_learned_from_the_refusal(ahead_seconds: float) -> None:
    async with cloud(ahead_seconds=ahead_seconds) as there:
        authorizer = signer(there)
        for _ in range(2):
            assert (await there.send(authorizer, INVOKE, body_of()))[0] == 200
        assert [one.status for one in there.simulator.requests()] == [403, 200, 200]


async def test_request_that_was_refused_for_its_body_is_not_made_again() -> None:
    async with cloud(ahead_seconds=250.0) as there:
        status, _ = await there.send(signer(there), INVOKE, b'{"no": "version"}')
        assert status == 400
        assert len(there.simulator.requests()) == 1


def chain(monkeypatch: pytest.MonkeyPatch, folder: Path, **variables: str) -> None:
    """An environment in which only these variables say who asks."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    settings = {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(folder / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
        **variables,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


async def test_credentials_come_from_the_environment_or_a_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chain(
        monkeypatch,
        tmp_path,
        AWS_ACCESS_KEY_ID="AKIAENV",
        AWS_SECRET_ACCESS_KEY="secret-of-AKIAENV",
    )
    (tmp_path / "credentials").write_text(
        "[team]\naws_access_key_id = AKIATEAM\naws_secret_access_key = secret-of-AKIATEAM\n"
    )
    async with cloud() as there:
        for spec, key in (
            (AwsSpec("us-east-1"), "AKIAENV"),
            (AwsSpec("us-east-1", profile="team"), "AKIATEAM"),
        ):
            assert (await there.send(signer(there, spec), INVOKE, body_of()))[0] == 200
            assert there.simulator.requests(1)[0].api_key == key


async def test_credentials_that_are_spent_are_requested_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "credentials.sh"
    count = tmp_path / "count"
    script.write_text(
        "#!/bin/sh\n"
        f'echo x >> "{count}"\n'
        f'if [ $(wc -l < "{count}") -gt 1 ]; then KEY=AKIANEXT; else KEY=EXPIRED1; fi\n'
        'echo "{\\"Version\\": 1, \\"AccessKeyId\\": \\"$KEY\\", '
        '\\"SecretAccessKey\\": \\"secret-of-$KEY\\"}"\n'
    )
    script.chmod(0o700)
    chain(monkeypatch, tmp_path)
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {script}\n")
    time = 0.0
    async with cloud() as there:
        authorizer = AwsAuthorizer(
            AwsSpec("us-east-1"), there.on_failure, there.obtained, monotonic=lambda: time
        )
        assert (await there.send(authorizer, INVOKE, body_of()))[0] == 403
        time = 61.0
        assert (await there.send(authorizer, INVOKE, body_of()))[0] == 200
        assert [one.status for one in there.simulator.requests()] == [403, 403, 200]
        assert {"secret-of-EXPIRED1", "secret-of-AKIANEXT"} < set(there.obtained.texts)


async def test_no_credentials_anywhere_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chain(monkeypatch, tmp_path)
    async with cloud() as there:
        for spec, words in (
            (AwsSpec("us-east-1"), "none in configuration, environment, profile"),
            (AwsSpec("us-east-1", profile="nobody"), "(nobody) could not be found"),
        ):
            with pytest.raises(CredentialsUnavailable) as raised:
                await there.send(signer(there, spec), INVOKE, body_of())
            assert words in raised.value.detail
            assert there.notices[-1] == raised.value.detail
        assert there.simulator.requests() == []


async def test_secrets_are_in_no_repr() -> None:
    async with cloud() as there:
        authorizer = signer(there, LENT)
        request = UpstreamRequest("POST", "http://a/", (), b"", authorizer=authorizer)
        proof = await authorizer.proof(request, there.http)
        assert b"token-of-ASIASIM" in proof
        shown = f"{LENT!r} {authorizer!r} {request!r} {authorizer._keys!r}"
        assert "of-ASIASIM" not in shown
        assert "ASIASIM" not in shown
        assert set(LENT.secrets) == {"ASIASIM", "secret-of-ASIASIM", "token-of-ASIASIM"}


@cases("date", "", "soon", "Mon, 01 Jan 2024 00:00:00 +99999999999999999")
def test_refusal_without_a_good_date_mends_nothing(date: str) -> None:
    authorizer = AwsAuthorizer(OWN, lambda _: None, ObtainedSecrets())
    response = SimpleNamespace(status=403, header={"date": date}.get)
    assert not authorizer.may_mend(cast(Any, response))
