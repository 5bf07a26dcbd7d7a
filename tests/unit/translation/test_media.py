"""Data URIs, and the types of media by their bytes."""

import base64
import tracemalloc

from channels.translation.media import data_uri, markdown, read_data_uri, stated_type, text_of
from channels.translation.model import Media
from tests.support.rows import cases

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 20).decode()
WEBP = base64.b64encode(b"RIFF1234WEBPVP8 ").decode()


@cases(
    "uri, expected",
    (f"data:image/png;base64,{PNG}", ("image/png", PNG)),
    (f"DATA:image/jpg;charset=x;BASE64,{PNG}", ("image/png", PNG)),
    (f"data:image/jpeg;base64,{WEBP}", ("image/webp", WEBP)),
    ("data:image/JPG;base64,AAAA", ("image/jpeg", "AAAA")),
    ("data:image/png;base64,AA%3D%3D", ("image/png", "AA==")),
    ("data:image/png;base64,AA\n AA", ("image/png", "AAAA")),
    ("data:text/plain,a%20b", ("text/plain", "YSBi")),
    ("data:,x", ("text/plain", "eA==")),
    ("data:oops", None),
    ("https://a.example/x.png", None),
    ("", None),
)
def test_data_uri_is_read(uri: str, expected: tuple[str | None, str] | None) -> None:
    assert read_data_uri(uri) == expected


def test_parameters_of_a_data_uri_are_stepped_over() -> None:
    uri = f"data:image/png{';a' * 500_000};base64,AAAA"
    tracemalloc.start()
    assert read_data_uri(uri) == ("image/png", "AAAA")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * len(uri)


def test_type_is_what_the_bytes_say_where_they_do() -> None:
    assert stated_type("image/gif", PNG) == "image/png"
    assert stated_type("application/x-thing", "AAAA") == "application/x-thing"
    assert stated_type(None, "AAAA") is None
    assert stated_type("image/png", "!") == "image/png"


def test_media_are_written_as_links() -> None:
    inline = Media("image", "image/png", data="AA==")
    assert data_uri(inline) == "data:image/png;base64,AA=="
    assert markdown(inline) == "![image](data:image/png;base64,AA==)"
    assert markdown(Media("audio", None, url="https://a", name="n")) == "[n](https://a)"


def test_base64_that_is_no_text_is_none() -> None:
    assert text_of("aGk=") == "hi"
    assert text_of("/w==") is None
    assert text_of("?") is None
