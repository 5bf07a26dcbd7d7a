"""Media stand where their type belongs, whatever member they came in."""

import base64
from typing import Any

import pytest

from channels.errors import InvalidRequest
from channels.translation.model import Protocol
from tests.support.rows import cases, each
from tests.unit.translation.pieces import (
    PDF,
    PNG,
    call,
    calls,
    file,
    given,
    image_url,
    inline,
    result,
    text,
    use,
)
from tests.unit.translation.pieces import document as document_block
from tests.unit.translation.translated import translated

WORDS = base64.b64encode(b"Four.").decode()
WAV = "UklGRiQAAABXQVZF"
ZIP = "UEsDBBQAAAAIAA=="
PDF_URI = f"data:application/pdf;base64,{PDF}"
TEXT_URI = f"data:text/plain;base64,{WORDS}"
JSON_URI = "data:application/json;base64,e30="
PNG_URI = f"data:image/png;base64,{PNG}"
WAV_URI = f"data:audio/wav;base64,{WAV}"
ZIP_URI = f"data:application/zip;base64,{ZIP}"
DATA_URI = f"data:application/octet-stream;base64,{ZIP}"
PDF_BLOCK = document_block(inline("application/pdf", PDF))
TEXT_SOURCE = {"type": "text", "media_type": "text/plain", "data": "Four."}
PNG_BLOCK = {"type": "image", "source": inline("image/png", PNG)}
PDF_FILE = {"type": "input_file", "filename": "document.pdf", "file_data": PDF_URI}
AUDIO = {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}


def shown(uri: str) -> dict[str, Any]:
    return {"type": "input_image", "image_url": uri}


def sent(uri: str, **members: Any) -> dict[str, Any]:
    return {"type": "input_file", "file_data": uri, **members}


def native(mime_type: str, data: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": mime_type, "data": data}}


def audio(data: str) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def video(uri: str) -> dict[str, Any]:
    return {"type": "video_url", "video_url": {"url": uri}}


def link(url: str) -> dict[str, Any]:
    return {"type": "url", "url": url}


UNKNOWN = "application/octet-stream"
TEXT_BLOCK = document_block(TEXT_SOURCE)
PDF_URL, PNG_URL = "https://a.example/b.pdf", "https://a.example/b.png"
LONG_LINK = "https://a.example/b.PDF?c=d.png#e"
PNG_LINK = {"type": "image", "source": link(PNG_URL)}
PDF_AS_IMAGE = {"type": "image", "source": link(PDF_URL)}
PDF_FILE_LINK = {"type": "input_file", "file_url": PDF_URL}

# client, upstream, the client's part, and the upstream's.
PLACES: list[tuple[Protocol, Protocol, dict[str, Any], dict[str, Any]]] = [
    ("chat", "messages", image_url(PDF_URI), PDF_BLOCK),
    ("chat", "messages", image_url(f"data:image/png;base64,{PDF}"), PDF_BLOCK),
    ("chat", "messages", image_url(f"data:;base64,{PDF}", detail="high"), PDF_BLOCK),
    ("chat", "messages", image_url(TEXT_URI), document_block(TEXT_SOURCE)),
    (
        "chat",
        "messages",
        image_url(JSON_URI),
        document_block({**TEXT_SOURCE, "data": "{}"}),
    ),
    ("chat", "messages", file(file_data=PNG_URI), PNG_BLOCK),
    ("chat", "messages", video(PNG_URI), PNG_BLOCK),
    ("chat", "messages", audio(PDF), PDF_BLOCK),
    ("chat", "native", image_url(PDF_URI), native("application/pdf", PDF)),
    ("chat", "native", image_url(WAV_URI), native("audio/wav", WAV)),
    ("chat", "responses", image_url(PDF_URI), PDF_FILE),
    ("chat", "responses", file(file_data=PNG_URI), shown(PNG_URI)),
    ("chat", "responses", image_url(TEXT_URI), sent(TEXT_URI, filename="document")),
    ("chat", "messages", image_url(f" {PNG_URI}\n"), PNG_BLOCK),
    ("chat", "messages", image_url("data:,Four."), document_block(TEXT_SOURCE)),
    ("chat", "messages", image_url(f"DATA:TEXT/Plain;Charset=UTF-8;Base64,{WORDS}"), TEXT_BLOCK),
    ("chat", "messages", file(file_data=f"data:{UNKNOWN};base64,{WORDS}"), TEXT_BLOCK),
    ("chat", "messages", file(file_data=WORDS), TEXT_BLOCK),
    ("chat", "messages", image_url("data:image/svg+xml,Four."), TEXT_BLOCK),
    ("chat", "messages", image_url(LONG_LINK), document_block(link(LONG_LINK))),
    ("chat", "responses", image_url(PDF_URL), PDF_FILE_LINK),
    ("responses", "messages", shown(PDF_URL), document_block(link(PDF_URL))),
    ("responses", "messages", {"type": "input_file", "file_url": PNG_URL}, PNG_LINK),
    ("messages", "responses", PDF_AS_IMAGE, PDF_FILE_LINK),
    ("responses", "messages", shown(PDF_URI), PDF_BLOCK),
    ("responses", "messages", shown(TEXT_URI), document_block(TEXT_SOURCE)),
    ("responses", "messages", sent(PNG_URI), PNG_BLOCK),
    ("responses", "native", shown(PDF_URI), native("application/pdf", PDF)),
    ("responses", "chat", shown(PDF_URI), file(file_data=PDF_URI, filename="document.pdf")),
    ("responses", "chat", sent(PNG_URI), image_url(PNG_URI)),
    ("responses", "chat", sent(WAV_URI), AUDIO),
    ("responses", "chat", shown(TEXT_URI), text("Four.")),
    (
        "messages",
        "chat",
        {"type": "image", "source": inline("application/pdf", PDF)},
        file(file_data=PDF_URI, filename="document.pdf"),
    ),
    ("messages", "chat", document_block(inline("image/png", PNG)), image_url(PNG_URI)),
    ("messages", "responses", document_block(inline("image/png", PNG)), shown(PNG_URI)),
]


def request_of(client: Protocol, *parts: dict[str, Any]) -> dict[str, Any]:
    label = "input_text" if client == "responses" else "text"
    content = [{"type": label, "text": "See:"}, *parts]
    return {
        "input" if client == "responses" else "messages": [{"role": "user", "content": content}]
    }


def placed(upstream: Protocol, body: dict[str, Any]) -> Any:
    if upstream == "native":
        return body["contents"][0]["parts"][1]
    return body["input" if upstream == "responses" else "messages"][0]["content"][1]


@each("client, upstream, part, expected", PLACES)
def test_medium_is_placed_by_its_type(
    client: Protocol, upstream: Protocol, part: dict[str, Any], expected: dict[str, Any]
) -> None:
    body, dropped = translated(client, upstream, request_of(client, part))
    assert placed(upstream, body) == expected
    assert dropped == []


@cases(
    "client, upstream, part, path",
    ("chat", "messages", image_url(ZIP_URI), "messages.image_url"),
    ("chat", "messages", image_url(DATA_URI), "messages.image_url"),
    ("chat", "messages", image_url(WAV_URI), "messages.image_url"),
    ("chat", "messages", file(file_data=WAV_URI), "messages.file"),
    ("chat", "responses", image_url(WAV_URI), "messages.image_url"),
    ("responses", "messages", shown(ZIP_URI), "input.content.input_image"),
    ("responses", "messages", sent(WAV_URI), "input.content.input_file"),
    ("responses", "chat", shown("data:video/mp4;base64,AAAA"), "input.content.input_image"),
    ("messages", "chat", PDF_AS_IMAGE, "messages.image"),
)
def test_medium_without_a_place_is_refused_by_name(
    client: Protocol, upstream: Protocol, part: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"^{path}: .* no place for") as refused:
        translated(client, upstream, request_of(client, part))
    assert refused.value.param == path


def test_medium_in_a_result_is_placed_by_its_type() -> None:
    body = {"messages": [*request_of("chat")["messages"], calls(call("c1")), result("c1", [])]}
    body["messages"][-1]["content"] = [image_url(PDF_URI)]
    found, _ = translated("chat", "messages", body)
    assert found["messages"][2]["content"] == [given("c1", [PDF_BLOCK])]
    turns = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [use("c1")]},
        {"role": "user", "content": [given("c1", [document_block(inline("image/png", PNG))])]},
    ]
    found, _ = translated("messages", "chat", {"messages": turns})
    assert found["messages"][3]["content"] == [image_url(PNG_URI)]


def test_medium_of_no_known_type_is_what_its_member_says() -> None:
    body, dropped = translated(
        "chat", "responses", request_of("chat", image_url("data:;base64,AAAA"))
    )
    assert placed("responses", body)["type"] == "input_image"
    assert dropped == []
