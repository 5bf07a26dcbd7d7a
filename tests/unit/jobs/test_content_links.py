"""Links to films that the gateway serves itself."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from gw.api.services import BASE_URL, ContentLinks
from tests.unit.jobs.test_settlement import NOW, opened

LINKS = ContentLinks(b"k" * 32, public_url="")
JOB = replace(opened().job, request={BASE_URL: "http://gw.example:8080"})


def test_link_is_good_for_its_film_until_it_expires() -> None:
    parts = urlsplit(LINKS.link(JOB, NOW + 10.9))
    assert parts.netloc == "gw.example:8080"
    assert parts.path == f"/v1/videos/generations/{JOB.id}/content"
    query = {name: value for name, (value,) in parse_qs(parts.query).items()}
    assert LINKS.is_good(JOB.id, **query, now=NOW + 9.0)
    assert not LINKS.is_good(JOB.id, **query, now=NOW + 10.0)
    assert not LINKS.is_good("vid_2", **query, now=NOW)
    assert not LINKS.is_good(JOB.id, **{**query, "expires": "9999999999"}, now=NOW)
    assert not ContentLinks(b"o" * 32, public_url="").is_good(JOB.id, **query, now=NOW)


def test_texts_that_are_no_link_of_ours_are_not_good() -> None:
    for expires, signature in (("", ""), ("x", "é"), ("1", "\ud800"), ("١", "0" * 64)):
        assert not LINKS.is_good(JOB.id, expires, signature, now=NOW)


def test_public_address_goes_before_the_one_that_a_client_used() -> None:
    links = ContentLinks(b"k" * 32, public_url="https://films.example")
    assert links.link(JOB, NOW).startswith("https://films.example/v1/videos/")
