"""Forms with files: parts where they lie, odd forms refused, a search that gives the loop back."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects import multipart
from channels.dialects.multipart import (
    HEAD_BYTES_MAX,
    PARTS_MAX,
    TEXT_BYTES_MAX,
    FormRequest,
    model_of,
    read_form,
)
from channels.errors import InvalidRequest
from tests.support.forms import BOUNDARY, TYPE, form, part
from tests.support.rows import cases, each


def read(body: bytes, content_type: str | None = TYPE) -> multipart.Form:
    return asyncio.run(read_form(body, content_type))


values = st.lists(
    st.one_of(
        st.binary(max_size=200),
        st.sampled_from([b"\r\n", b"--", b"\r\n--", f"\r\n--{BOUNDARY[:-1]}".encode(), b""]),
    ),
    max_size=4,
).map(b"".join)


@given(st.lists(values, min_size=1, max_size=5), st.sampled_from([1, 7, 4096]))
def test_files_are_found_as_they_were_sent(files: list[bytes], portion: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multipart, "SEARCHED_BYTES", portion)
        body = form(*(part("file", one, "a.bin") for one in files), part("model", b"m"))
        found = read(body)
    assert [body[one.start : one.end] for one in found.files("file")] == files
    assert model_of(found) == "m"
    renamed = FormRequest(form=found, model="m", parameters={}).body_for(body, "other/ü")
    assert model_of(read(renamed)) == "other/ü"
    assert [renamed[one.start : one.end] for one in read(renamed).files("file")] == files


WHOLE = form(part("file", b"12345", "a.wav"), part("model", b"m"))


@each("cut", range(len(WHOLE) - 2))
def test_form_that_is_cut_off_is_refused(cut: int) -> None:
    if cut < WHOLE.rindex(b"--"):
        with pytest.raises(InvalidRequest):
            read(WHOLE[:cut])


@cases(
    "body, content_type",
    (b"{}", "application/json"),
    (WHOLE, None),
    (WHOLE, "multipart/form-data"),
    (WHOLE, "multipart/form-data; boundary=other"),
    (form(*[part("n", b"1")] * (PARTS_MAX + 1)), TYPE),
    (form(part("prompt", b"a" * (TEXT_BYTES_MAX + 1))), TYPE),
    (form(part("prompt", b"\xff")), TYPE),
    (form(b'Content-Disposition: form-data; name="a"\r\nX: ' + b"a" * HEAD_BYTES_MAX), TYPE),
    (form(b"Content-Type: text/plain\r\n\r\na"), TYPE),
)
def test_what_is_no_form_or_too_much_of_one_is_refused(
    body: bytes, content_type: str | None
) -> None:
    with pytest.raises(InvalidRequest):
        read(body, content_type)


@cases("parts", [], [b"a", b"b"], [b""], [b"\n"], [b"x" * 1000])
def test_model_is_named_once(parts: list[bytes]) -> None:
    with pytest.raises(InvalidRequest, match="model"):
        model_of(read(form(*(part("model", one) for one in parts), part("n", b"1"))))
