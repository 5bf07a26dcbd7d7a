"""When a signed link ends, by the words of those who sign them."""

from hypothesis import given
from hypothesis import strategies as st

from channels.links import expires_at, is_link, lasts_until
from tests.support.rows import cases

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


def test_what_is_no_link_is_distinguished_from_one() -> None:
    assert is_link("HTTPS://a.example/b")
    for text in ("data:image/png;base64,AAAA", "a.png", "https://a b", "https://a\n", "x" * 9):
        assert not is_link(text)
    assert not is_link("https://" + "a" * 9000)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    end = lasts_until([f"https://a.example/?{text}", text], now=NOW, usual_seconds=DAY)
    assert end is not None
    assert NOW < end <= NOW + 367 * DAY
