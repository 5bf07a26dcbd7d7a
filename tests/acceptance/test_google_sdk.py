"""The official library of native-content, on its own channel and on translated ones (T4, T6)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.genai import Client, errors, types

from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from tests.acceptance.translated import SCHEMA, SETTINGS, TWO_CALLS, USAGE, direct
from tests.support.rows import each

# The deployment of this module.
__all__ = ["SETTINGS"]

TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="weather", description="The weather in a city", parameters_json_schema=SCHEMA
        )
    ]
)
ON_ALL = pytest.mark.parametrize("of_model", ["gemini", "gpt", "claude", "codex"])
WHOLE_AND_STREAMED = pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])


def client_of(h: Deployment, key: str, **options: Any) -> Client:
    """A client as its documentation makes it, told another address."""
    retries = types.HttpRetryOptions(attempts=1)
    where = types.HttpOptions(base_url=h.gateway.url, retry_options=retries, **options)
    return Client(api_key=key, http_options=where)


@pytest.fixture
def sdk(h: Deployment, tenant: Tenant) -> Iterator[Client]:
    with client_of(h, tenant.key) as client:
        yield client


def ask(
    sdk: Client, of_model: str, contents: Any, *, is_stream: bool, **config: Any
) -> list[types.GenerateContentResponse]:
    """The chunks of a stream, or the one whole answer."""
    request = types.GenerateContentConfig(**config)
    if is_stream:
        return list(
            sdk.models.generate_content_stream(model=of_model, contents=contents, config=request)
        )
    return [sdk.models.generate_content(model=of_model, contents=contents, config=request)]


def parts_of(responses: list[types.GenerateContentResponse]) -> list[types.Part]:
    found: list[types.Part] = []
    for response in responses:
        assert response.candidates
        content = response.candidates[0].content
        found.extend(content.parts or () if content is not None else ())
    return found


@ON_ALL
@WHOLE_AND_STREAMED
def test_answer_has_text_and_usage(
    h: Deployment, sdk: Client, tenant: Tenant, of_model: str, is_stream: bool
) -> None:
    direct(h, of_model, text="Grüße, 世界", chars_per_event=2, usage=USAGE)
    responses = ask(
        sdk,
        of_model,
        "Hello",
        is_stream=is_stream,
        system_instruction="Be brief.",
        max_output_tokens=500,
        temperature=0.5,
        stop_sequences=["Ω"],
    )
    assert "".join(response.text or "" for response in responses) == "Grüße, 世界"
    assert is_stream is (len(responses) > 3)
    last = responses[-1]
    assert last.candidates
    assert last.candidates[0].finish_reason == types.FinishReason.STOP
    usage = last.usage_metadata
    assert usage is not None
    assert (
        usage.prompt_token_count,
        usage.candidates_token_count,
        usage.cached_content_token_count,
        usage.total_token_count,
    ) == (1000, 100, 400, 1100)
    assert tenant.client.remaining_nano_usd() == 10**9 - 1_640_000
    body = h.upstream.last_body()
    if of_model == "codex":
        assert (body["instructions"], body["max_output_tokens"]) == ("Be brief.", 500)
    elif of_model == "gemini":
        config = body["generationConfig"]
        assert (config["maxOutputTokens"], config["temperature"]) == (500, 0.5)
    else:
        # A name of the maker's without a number is like the newest, which take no sampling.
        assert body.get("temperature") == (0.5 if of_model == "gpt" else None)
        assert "Be brief." in json.dumps(body["messages" if of_model == "gpt" else "system"])


@ON_ALL
@WHOLE_AND_STREAMED
def test_tool_calls_and_their_results_make_two_turns(
    h: Deployment, sdk: Client, of_model: str, is_stream: bool
) -> None:
    direct(h, of_model, tool_calls=TWO_CALLS)
    request = types.UserContent("The weather in both?")
    calling = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.ANY)
    first = ask(
        sdk,
        of_model,
        [request],
        is_stream=is_stream,
        tools=[TOOL],
        tool_config=types.ToolConfig(function_calling_config=calling),
    )
    parts = parts_of(first)
    calls = [part.function_call for part in parts if part.function_call is not None]
    assert [(call.name, call.args) for call in calls] == [
        (call["name"], call["arguments"]) for call in TWO_CALLS
    ]
    assert first[-1].candidates
    assert first[-1].candidates[0].finish_reason == types.FinishReason.STOP
    h.upstream.reset()
    results = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.id, name=call.name, response={"degrees": degrees}
            )
        )
        for call, degrees in zip(calls, (7, 9), strict=True)
    ]
    message = [part for part in parts if part.function_call is not None]
    turns = [request, types.ModelContent(message), types.UserContent(results)]
    (second,) = ask(sdk, of_model, turns, is_stream=False, tools=[TOOL])
    assert second.candidates
    assert second.candidates[0].finish_reason == types.FinishReason.STOP
    body = h.upstream.last_body()
    if of_model == "gpt":
        results_sent = [one["content"] for one in body["messages"] if one["role"] == "tool"]
        assert results_sent == ['{"degrees":7}', '{"degrees":9}']
    elif of_model == "codex":
        assert [item["output"] for item in body["input"][-2:]] == ['{"degrees":7}', '{"degrees":9}']
    elif of_model == "claude":
        results_sent = [one["content"] for one in body["messages"][-1]["content"]]
        assert [json.dumps(one).count("degrees") for one in results_sent] == [1, 1]
    else:
        first_call = body["contents"][1]["parts"][0]
        assert first_call["thoughtSignature"] == "c2ltdWxhdGVkLXRob3VnaHQ="


@ON_ALL
@WHOLE_AND_STREAMED
def test_thoughts_come_apart_from_the_answer_and_may_be_sent_back(
    h: Deployment, sdk: Client, of_model: str, is_stream: bool
) -> None:
    direct(h, of_model, reasoning_text="Let me think.", text="Four.")
    thinking = types.ThinkingConfig(include_thoughts=True, thinking_budget=2000)
    request = types.UserContent("Two and two?")
    first = ask(sdk, of_model, [request], is_stream=is_stream, thinking_config=thinking)
    parts = parts_of(first)
    thought = "".join(part.text or "" for part in parts if part.thought)
    message = "".join(part.text or "" for part in parts if not part.thought)
    assert (thought, message) == ("Let me think.", "Four.")
    h.upstream.reset()
    turns = [request, types.ModelContent(parts), types.UserContent("And then?")]
    (second,) = ask(sdk, of_model, turns, is_stream=False, thinking_config=thinking)
    assert second.text


@each("of_model", ["gemini", "gpt", "claude", "codex"])
def test_json_by_schema_is_read(h: Deployment, sdk: Client, of_model: str) -> None:
    (response,) = ask(
        sdk,
        of_model,
        "Where?",
        is_stream=False,
        response_mime_type="application/json",
        response_json_schema=SCHEMA,
    )
    assert set(json.loads(response.text or "")) == {"city"}


@each("of_model", ["gemini", "gpt", "claude", "codex"])
@each(
    "status, kind",
    [(400, errors.ClientError), (429, errors.ClientError), (500, errors.ServerError)],
)
def test_errors_are_the_librarys_own(
    h: Deployment, sdk: Client, of_model: str, status: int, kind: type[errors.APIError]
) -> None:
    direct(h, of_model, status=status, message="No, not this.")
    with pytest.raises(kind, match="No, not this") as caught:
        ask(sdk, of_model, "Hello", is_stream=False)
    assert caught.value.code == status


@each("of_model", ["gemini", "gpt", "claude", "codex"])
def test_error_within_a_stream_is_raised(h: Deployment, sdk: Client, of_model: str) -> None:
    direct(h, of_model, events=30, error_event=10, message="The model fell over.")
    with pytest.raises(errors.APIError, match="The model fell over"):
        ask(sdk, of_model, "Hello", is_stream=True)


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_library_may_be_given_its_version(h: Deployment, tenant: Tenant, version: str) -> None:
    with client_of(h, tenant.key, api_version=version) as sdk:
        (response,) = ask(sdk, "gemini", "Hello", is_stream=False)
    assert response.text


def test_unknown_key_is_refused(h: Deployment) -> None:
    with (
        client_of(h, "sk-platform-" + "0" * 64) as stranger,
        pytest.raises(errors.ClientError) as caught,
    ):
        ask(stranger, "gemini", "Hello", is_stream=False)
    assert (caught.value.code, caught.value.status) == (401, "UNAUTHENTICATED")


def test_what_is_not_served_is_an_error_that_the_library_reads(sdk: Client) -> None:
    with pytest.raises(errors.ClientError) as caught:
        list(sdk.files.list())
    assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")


def test_models_come_by_page_and_by_id(h: Deployment, sdk: Client, tenant: Tenant) -> None:
    every = [f"models/{one['id']}" for one in SETTINGS["models"]]
    with client_of(h, tenant.key, api_version="v1beta") as lister:  # /v1/models is another list
        assert [model.name for model in lister.models.list(config={"page_size": 3})] == every
    model = sdk.models.get(model="claude")
    assert (model.name, model.display_name) == ("models/claude", "claude")
    assert model.output_token_limit == 1000
    assert model.supported_actions == ["generateContent", "countTokens"]
    with pytest.raises(errors.ClientError) as caught:
        sdk.models.get(model="gone")
    assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")


@each("of_model", ["gemini", "gpt", "claude", "codex"])
def test_tokens_are_counted_for_nothing(h: Deployment, of_model: str) -> None:
    with client_of(h, h.tenant(nano_usd=0).key) as sdk:
        counted = sdk.models.count_tokens(model=of_model, contents="Hello, how are you?")
        assert counted.total_tokens is not None
        assert 4 <= counted.total_tokens <= 9
        with pytest.raises(errors.ClientError) as caught:
            sdk.models.count_tokens(model="gone", contents="Hello")
    assert (caught.value.code, caught.value.status) == (400, "NOT_FOUND")
