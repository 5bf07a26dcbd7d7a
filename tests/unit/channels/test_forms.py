"""Forms with files: only a plain one is read, and every parser reads what goes upstream alike."""

import asyncio
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from email import policy
from email.parser import BytesParser
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartParser
from werkzeug.formparser import parse_form_data

from channels.dialects import multipart
from channels.dialects.images.edits import read_edits
from channels.dialects.multipart import (
    HEAD_BYTES_MAX,
    PARTS_MAX,
    TEXT_BYTES_MAX,
    FormRequest,
    model_of,
    read_form,
)
from channels.dialects.transcriptions import read_request
from channels.errors import InvalidRequest
from tests.support.forms import BOUNDARY, TYPE, form, part
from tests.support.rows import cases, each
from tests.support.steps import steps_of

NAMES = frozenset(("model", "file", "prompt", "n", "image", "image[]"))


def read(body: bytes, content_type: str | None = TYPE) -> multipart.Form:
    return read_form(body, content_type, NAMES)


# What is read, as (name, value) of texts and (name, file name, value) of files.
Fields = list[tuple[str, ...]]


def fields_of(found: multipart.Form, body: bytes, **replaced: str) -> Fields:
    fields: Fields = []
    for one in found.parts:
        value = body[one.start : one.end]
        if one.file_name is None:
            fields.append((one.name, replaced.get(one.name, value.decode())))
        else:
            fields.append((one.name, one.file_name, value.decode("latin-1")))
    return sorted(fields)


def by_starlette(content_type: str, body: bytes) -> Fields:
    async def sent() -> Any:
        yield body

    async def parsed() -> Fields:
        headers = Headers({"content-type": content_type})
        found = await MultiPartParser(headers, sent(), max_part_size=len(body)).parse()
        fields: Fields = []
        for name, value in found.multi_items():
            if isinstance(value, UploadFile):
                text = (await value.read()).decode("latin-1")
                fields.append((name, value.filename or "", text))
            else:
                fields.append((name, value))
        await found.close()
        return fields

    return sorted(asyncio.run(parsed()))


def by_werkzeug(content_type: str, body: bytes) -> Fields:
    _, texts, files = parse_form_data(
        {
            "REQUEST_METHOD": "POST",
            "CONTENT_TYPE": content_type,
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
        },
        silent=False,
    )
    fields: Fields = list(texts.items(multi=True))
    for name, file in files.items(multi=True):
        fields.append((name, file.filename or "", file.read().decode("latin-1")))
        file.close()
    return sorted(fields)


def by_library(content_type: str, body: bytes) -> Fields:
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = BytesParser(policy=policy.HTTP).parsebytes(head + body)
    assert message.is_multipart()
    assert not message.preamble
    assert not message.epilogue
    fields: Fields = []
    for one in message.iter_parts():
        name = one.get_param("name", header="content-disposition")
        value = one.get_payload(decode=True)
        assert isinstance(name, str)
        assert isinstance(value, bytes)
        file_name = one.get_filename()
        fields.append(
            (name, value.decode())
            if file_name is None
            else (name, file_name, value.decode("latin-1"))
        )
    return sorted(fields)


PARSERS: tuple[Callable[[str, bytes], Fields], ...] = (by_starlette, by_werkzeug, by_library)


def assert_read_alike(body: bytes, content_type: str = TYPE) -> None:
    """Every parser finds in what goes upstream what the gateway read."""
    found = read(body, content_type)
    request = FormRequest(form=found, model=found.texts.get("model", ""), parameters={})
    stated, written = request.body_for(body, "vendor/model")
    expected = fields_of(found, body, model="vendor/model")
    for parser in PARSERS:
        assert labelled(parser(stated, bytes(written))) == labelled(expected), parser.__name__


def labelled(fields: Fields) -> Fields:
    """With the names of files as the most lenient parser has them: they are labels only."""
    return [
        one if len(one) == 2 else (one[0], " ".join(one[1].replace("%22", '"').split()), one[2])
        for one in fields
    ]


values = st.lists(
    st.one_of(
        st.binary(max_size=200),
        st.sampled_from(
            [b"\r\n", b"\r", b"\n", b"--", b"\r\n--", b"\n--", f"\n--{BOUNDARY}".encode()]
        ),
        st.sampled_from(
            [f"\r\n--{BOUNDARY[:-1]}".encode(), b"Content-Disposition: form-data", b""]
        ),
    ),
    max_size=4,
).map(b"".join)
# What no form with this boundary may contain.
values = values.filter(lambda value: f"\r\n--{BOUNDARY}".encode() not in value)


@given(st.lists(values, min_size=1, max_size=5))
def test_files_are_found_as_they_were_sent_and_written(files: list[bytes]) -> None:
    body = form(*(part("image[]", one, "a.bin") for one in files), part("model", b"m"))
    found = read(body)
    assert [body[one.start : one.end] for one in found.files("image[]")] == files
    assert model_of(found) == "m"
    request = FormRequest(form=found, model="m", parameters={})
    content_type, written = request.body_for(body, "other/ü")
    again = read(bytes(written), content_type)
    assert model_of(again) == "other/ü"
    assert len(bytes(written)) == len(written)
    assert [bytes(written)[one.start : one.end] for one in again.files("image[]")] == files


def test_contents_are_not_copied_and_no_boundary_is_used_twice() -> None:
    body = form(part("file", b"1" * 1_000_000, "a.wav"), part("model", b"m"))
    request = FormRequest(form=read(body), model="m", parameters={})
    (one, written), (other, _) = request.body_for(body, "m"), request.body_for(body, "m")
    assert one != other
    assert sum(len(piece) for piece in written.pieces if isinstance(piece, bytes)) < 1000
    assert {id(piece.obj) for piece in written.pieces if isinstance(piece, memoryview)} == {
        id(body)
    }


# Heads as client libraries write them.
@cases(
    "head, file_name",
    ('Content-Disposition: form-data; name="file"; filename="a.wav"', "a.wav"),
    ("content-disposition:form-data;name=file;filename=a.wav", "a.wav"),
    (
        "Content-Type: audio/webm;codecs=opus\r\n"
        'Content-Disposition: form-data; name=file; filename="ü.wav"; '
        "filename*=utf-8''%C3%BC.wav",
        "ü.wav",
    ),
    (
        'Content-Disposition: form-data; name="file"; filename="Bild 1.23\u202fPM.png"\r\n'
        "Content-Length: 3\r\nContent-Transfer-Encoding: binary\r\nContent-Type: image/png",
        "Bild 1.23\u202fPM.png",
    ),
    ('Content-Disposition: form-data; name="file"; filename="a;name=model"', "a_name=model"),
)
def test_heads_of_client_libraries_are_read(head: str, file_name: str) -> None:
    body = form(head.encode() + b"\r\n\r\nabc", part("model", b"cheap"))
    (file,) = read(body).files("file")
    assert (file.file_name, file.size) == (file_name, 3)
    assert_read_alike(body)


@cases(
    "names",
    ("timestamp_granularities[]", "timestamp_granularities[]"),
    ("chunking_strategy[type]", "chunking_strategy[threshold]"),
    ("include[]", "language"),
)
def test_texts_that_may_stand_several_times(names: tuple[str, ...]) -> None:
    assert_read_alike(form(*(part(name, b"1") for name in names), part("model", b"cheap")))


@cases(
    "content_type",
    f"multipart/form-data; boundary={BOUNDARY}",
    f"Multipart/Form-Data;Boundary={BOUNDARY}",
    f'multipart/form-data; boundary="{BOUNDARY}"',
)
def test_type_of_a_plain_form(content_type: str) -> None:
    assert_read_alike(form(part("model", b"cheap")), content_type)


CHEAP = part("model", b"cheap")
WHOLE = form(part("file", b"12345", "a.wav"), CHEAP)
PLAIN = f"multipart/form-data; boundary={BOUNDARY}"
MARK = f"--{BOUNDARY}".encode()


def headed(head: str, value: bytes = b"dear") -> bytes:
    return form(head.encode() + b"\r\n\r\n" + value, CHEAP)


@each("cut", range(len(WHOLE) - 2))
def test_form_that_is_cut_off_is_refused(cut: int) -> None:
    if cut < WHOLE.rindex(b"--"):
        with pytest.raises(InvalidRequest):
            read(WHOLE[:cut])


@cases(
    "content_type",
    None,
    "application/json",
    "multipart/form-data",
    "multipart/mixed; boundary=" + BOUNDARY,
    "multipart/form-data; boundary=other",
    f"multipart/form-data; xboundary=A; boundary={BOUNDARY}",
    f"multipart/form-data; boundary={BOUNDARY}; boundary=B",
    f'multipart/form-data; x="boundary=A"; boundary={BOUNDARY}',
    f"multipart/form-data; boundary*=utf-8''{BOUNDARY}",
    f"{PLAIN}; charset=utf-16",
    f"{PLAIN},{PLAIN}",
    f"{PLAIN};",
    f'multipart/form-data; boundary="{BOUNDARY}\\""',
    f"multipart/form-data; boundary={BOUNDARY} x",
    "multipart/form-data; boundary=" + "a" * 71,
)
def test_type_that_two_parsers_may_read_differently_is_refused(content_type: str | None) -> None:
    with pytest.raises(InvalidRequest):
        read(WHOLE, content_type)


@cases(
    "body",
    b"",
    b"\r\n" + WHOLE,
    b"preamble\r\n" + WHOLE,
    WHOLE + b"epilogue",
    WHOLE + b"\r\n",
    WHOLE + WHOLE,
    WHOLE.replace(b"\r\n", b"\n"),
    WHOLE.replace(MARK + b"\r\n", MARK + b" \r\n"),
    WHOLE.replace(MARK + b"\r\n", MARK + b"x\r\n"),
    MARK + b"\r\n\r\n\r\nno head\r\n" + MARK + b"--\r\n",
    form(b"Content-Disposition: form-data; name=a\r\n\r\n" + MARK),
)
def test_frame_that_is_not_the_plain_one_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read(body)


@cases(
    "head",
    "Content-Type: text/plain",
    "Content-Disposition: form-data",
    "Content-Disposition: attachment; name=a",
    "Content-Disposition: form-data; name*=utf-8''model",
    "Content-Disposition: form-data; name=x; name*=utf-8''model",
    "Content-Disposition: form-data; name*0=mo; name*1=del",
    "Content-Disposition: form-data; name=a; name=model",
    "Content-Disposition: form-data; name=a; NAME=model",
    "Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=model",
    'Content-Disposition: form-data; name="a\\"; name=model"',
    'Content-Disposition: form-data; name="a"model"',
    'Content-Disposition: form-data; name="a" name="model"',
    'Content-Disposition: form-data; x="; name=model; y="; name=a',
    "Content-Disposition: form-data; name=a;",
    "Content-Disposition: form-data; name=a; filename*=utf-8''b",
    'Content-Disposition: form-data; name=a; filename=""',
    'Content-Disposition: form-data; name=a; filename="C:\\a.wav"',
    'Content-Disposition: form-data; name=" model"',
    'Content-Disposition: form-data; name="model "',
    'Content-Disposition: form-data; name="mo\tdel"',
    'Content-Disposition: form-data; name=""',
    'Content-Disposition: form-data; name="=?utf-8?q?model?="',
    "Content-Disposition: form-data; name=a\r\n folded: 1",
    "Content-Disposition: form-data;\r\n name=a",
    "Content-Disposition : form-data; name=a",
    "Content-Disposition: form-data; name=a\nContent-Type: text/plain",
    "Content-Disposition: form-data; name=a\rContent-Type: text/plain",
    'Content-Disposition: form-data; name=a; filename="a\0b"',
    'Content-Disposition: form-data; name=a; filename="a\u2028b"',
    "Content-Disposition: form-data; name=a\r\nX-Other: 1",
    "Content-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64",
    "Content-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: quoted-printable",
    "Content-Disposition: form-data; name=a\r\nContent-Length: 2",
    "Content-Disposition: form-data; name=a\r\nContent-Type: text/plain; charset=utf-16",
    "Content-Disposition: form-data; name=a\r\nContent-Type: multipart/mixed; boundary=B",
    "Content-Disposition: form-data; name=a\r\nContent-Type: message/rfc822",
    "Content-Disposition: form-data; name=a\r\nContent-Type: text",
    "Content-Disposition: form-data; name=a; filename=" + "b" * HEAD_BYTES_MAX,
)
def test_head_that_two_parsers_may_read_differently_is_refused(head: str) -> None:
    with pytest.raises(InvalidRequest):
        read(headed(head))


def test_head_that_is_not_in_utf_8_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        read(form(b'Content-Disposition: form-data; name=a; filename="\xff"\r\n\r\n', CHEAP))


@cases(
    "parts",
    [CHEAP, part("model", b"dear")],
    [CHEAP, part("model", b"dear", "a.txt")],
    [part("Model", b"dear"), CHEAP],
    [part("model[]", b"dear"), CHEAP],
    [part("model[0]", b"dear")],
    [part("N", b"10"), CHEAP],
    [part("n[]", b"10"), CHEAP],
    [part("other", b"1"), part("other", b"2")],
    [part("other", b"1"), part("OTHER", b"2")],
    [part("other", b"1"), part("other[]", b"2")],
    [part("other[a]", b"1"), part("other[a]", b"2")],
    [part("prompt", b"a" * (TEXT_BYTES_MAX + 1)), CHEAP],
    [part("prompt", b"\xff"), CHEAP],
    [part("image", b"1", "a.png"), part("image", b"2")],
)
def test_names_that_an_upstream_may_take_for_another_are_refused(parts: list[bytes]) -> None:
    with pytest.raises(InvalidRequest):
        read(form(*parts))


def test_form_has_so_many_parts_and_no_more() -> None:
    many = [part(f"x{number}", b"1") for number in range(PARTS_MAX)]
    assert len(read(form(*many)).parts) == PARTS_MAX
    with pytest.raises(InvalidRequest, match="parts"):
        read(form(*many, CHEAP))


@cases("parts", [], [b""], [b"\n"], [b"x" * 1000])
def test_model_is_named(parts: list[bytes]) -> None:
    with pytest.raises(InvalidRequest, match="model"):
        model_of(read(form(*(part("model", one) for one in parts), part("n", b"1"))))


_odd = st.sampled_from(
    [
        *('"', "\\", ";", "=", "'", "*", "[", "]", " ", "\t", "%22", '\\"', "ü", "\u202f", "=?"),
        *("name", "name*", "filename", "filename*", "model", "file", "n", "a", "utf-8''model"),
        *("\r", "\n", "\r\n", "\0", ":", "/", "boundary=", BOUNDARY, "--", f"\r\n--{BOUNDARY}"),
    ]
)
_odd_text = st.lists(_odd, max_size=6).map("".join)
_plain = st.sampled_from(["a", "b-c", "x[a]", "x[b]", "y[]", "image[]", "n", "prompt"])
_labels = st.lists(st.sampled_from(["a", "ü", " ", "%22", ";", "'", "=?", "\u202f"]), min_size=1)


@st.composite
def heads(draw: Callable[..., Any]) -> str:
    """The head of a part: plain, but for one thing of it now and then."""
    odd = draw(st.sampled_from(["", "", "", "", "", "name", "filename", "more"]))
    name = draw(_odd_text if odd == "name" else _plain)
    head = "Content-Disposition: form-data; name=" + (f'"{name}"' if draw(st.booleans()) else name)
    if odd == "filename" or draw(st.booleans()):
        file_name = draw(_odd_text if odd == "filename" else _labels.map("".join))
        head += f'; filename="{file_name}"'
    if odd == "more":
        head += draw(st.sampled_from(["; ", ";", "\r\n", ""])) + draw(_odd_text)
    if draw(st.booleans()):
        media_types = ["text/plain", "audio/wav", 'text/plain; charset="utf-8"', "a/b; c=d; e=f"]
        head += "\r\nContent-Type: " + draw(st.sampled_from(media_types))
    return head


_odd_parts = st.tuples(heads(), st.one_of(values, _odd_text.map(str.encode)))


@given(
    st.lists(_odd_parts, max_size=4),
    st.sampled_from([*[""] * 9, "preamble\r\n"]),
    st.sampled_from([*[""] * 9, "\r\n", "epilogue"]),
)
def test_odd_forms_are_refused_or_read_alike_by_all(
    parts: list[tuple[str, bytes]], before: str, after: str
) -> None:
    body = form(*(head.encode() + b"\r\n\r\n" + value for head, value in parts), CHEAP)
    body = before.encode() + body + after.encode()
    try:
        read(body)
    except InvalidRequest:
        return
    assert_read_alike(body)


def hostile(size: int) -> Iterator[tuple[str, bytes]]:
    """Forms of about this size that make a reader search or split for long."""
    heads = size // HEAD_BYTES_MAX
    semicolons = b'Content-Disposition: form-data; name="a"' + b";" * 900
    yield "semicolons", form(*[semicolons + b"\r\n\r\n"] * min(heads, PARTS_MAX), CHEAP)
    spaces = b"Content-Disposition: form-data" + b" " * 900 + b"; name=a"
    yield "spaces", form(*[spaces + b"\r\n\r\n"] * min(heads, PARTS_MAX), CHEAP)
    almost = f"\r\n--{BOUNDARY[:-1]}".encode()
    yield "boundaries", form(part("file", almost * (size // len(almost)), "a"), CHEAP)
    yield "lines", form(part("file", b"\r\n" * (size // 2), "a"), CHEAP)


def test_reading_takes_steps_by_the_parts_and_not_by_the_bytes() -> None:
    few, many = (
        {name: steps_of(partial(_tried, body)) for name, body in hostile(size)}
        for size in (256 * 1024, 512 * 1024)
    )
    for name, steps in few.items():
        assert many[name] <= 1.1 * steps + 100, name


def _tried(body: bytes) -> None:
    with suppress(InvalidRequest):
        read(body)


def test_requests_come_back_from_a_helper() -> None:
    body = form(part("file", b"12345", "a.wav"), CHEAP)
    request = read_request(body, TYPE)
    assert pickle.loads(pickle.dumps(request)).form == request.form
    body = form(part("image", b"12345", "a.png"), CHEAP, part("prompt", b"a cat"))
    edits = read_edits(body, TYPE)
    assert pickle.loads(pickle.dumps(edits)).form == edits.form
