"""What ends of jobs cost and what their rows say; each receipt comes to the same by another way."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.jobs.settlement import LINK_SECONDS, settlement_of
from actors.jobs.state_machine import End, ended_as
from actors.jobs.store import OpenJob
from actors.wallet.messages import CallFacts
from actors.wallet.piece_prices import MediaPrice
from actors.wallet.receipt import formula, lines_of, multiplier_of, total_nano_usd
from channels.media.results import AvatarResult, MusicResult, SpeechResult, Track, VideoResult
from channels.prices import PriceSpec
from channels.registry import ModelSpec
from tests.support.jobs import CHANNEL, FILM, running_job
from tests.support.rows import cases
from tests.support.specs import make_model

NOW = 1_790_000_100.0
SUBMITTED = NOW - 100.0
PROTOCOLS = {"video": "videos", "music": "music", "speech": "speech", "avatar": "avatars"}
TOKENS = {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0}


def opened(
    kind: Any = "video",
    price: Any = None,
    quantity: int = 5000,
    held: int | None = None,
    **request: str,
) -> OpenJob:
    """A job of this kind, submitted 100 seconds ago with this request."""
    job = running_job(
        kind=kind,
        protocol=PROTOCOLS[kind],
        price=price or {"per_second": "0.1"},
        quantity=quantity,
        held=quantity if held is None else held,
        submitted_at=SUBMITTED,
        deadline_at=NOW + 1,
    )
    facts = CallFacts(
        call_id=job.call_id,
        account_id=job.account_id,
        key_id=job.key_id,
        protocol=job.protocol,
        model=job.model,
        submitted_at=SUBMITTED,
        job_id=job.id,
    )
    detail = {"hold": 1, "request": request}
    return OpenJob(job=job, facts=facts, amount_nano_usd=1, attempts=(), detail=detail)


def settled(open_job: OpenJob, end: End) -> Any:
    return settlement_of(
        open_job,
        end,
        now=NOW,
        by="me",
        redact=lambda text: text.replace("secret", "…"),
        content_link=lambda job, expires_at: f"https://gw.example/{job.id}?{expires_at:.0f}",
        upstream_cost=lambda open_job, quantity: 3 * quantity,
    )


def made(result: Any, seconds_ms: int | None = None) -> End:
    return End(state="succeeded", result=result, seconds_ms=seconds_ms)


SONGS = MusicResult(tracks=(Track(audio_url="https://a/1"), Track(clip_id="2")))


@cases(
    "open_job, end, cost, units, urls",
    (opened(), made(FILM, 8_046), 804_600_000, 8, [FILM.url]),
    (opened(), made(FILM, 499), 49_900_000, 1, [FILM.url]),  # at least one second
    (opened(), made(FILM, 2_500), 250_000_000, 3, [FILM.url]),  # half up
    (opened(), made(FILM), 500_000_000, 5, [FILM.url]),  # nothing was said: as asked for
    (opened(), made(FILM, 600_000), 60_000_000_000, 600, [FILM.url]),
    # no film has this length: the longest of a request that leaves it open, or what it asked for
    (opened(held=300_000), made(FILM, 10**9 + 1), 30_000_000_000, 300, [FILM.url]),
    (opened(), made(FILM, 90_000_000), 30_000_000_000, 300, [FILM.url]),
    (opened(duration="5"), made(FILM, 8_000), 800_000_000, 8, [FILM.url]),
    (opened(duration="5"), made(FILM, 5_000_000), 500_000_000, 5, [FILM.url]),
    (opened(duration="5", video_mode="extend"), made(FILM, 90_000), 9_000_000_000, 90, [FILM.url]),
    (opened(price={"per_call": "2"}), made(FILM, 7_000), 2_000_000_000, 7, [FILM.url]),
    (opened("music", {"per_generation": "0.12"}, 1), made(SONGS), 120_000_000, 1, ["https://a/1"]),
    (
        opened("speech", {"per_character": "0.00003", "multiplier": "0.5"}, 11),
        made(SpeechResult(url="https://a/s"), 9_000),
        165_000,
        11,
        ["https://a/s"],
    ),
    (
        opened("avatar", {"per_call": "2"}, 1),
        made(AvatarResult(upstream_id="va")),
        2_000_000_000,
        1,
        [],
    ),
)
def test_what_succeeded_is_paid_for(
    open_job: OpenJob, end: End, cost: int, units: int, urls: list[str]
) -> None:
    outcome, job_end = settled(open_job, end)
    assert (outcome.status, outcome.cost_nano_usd, outcome.units) == ("success", cost, units)
    assert list(outcome.result_urls) == urls
    charged = outcome.detail.get("milliseconds", outcome.units)
    assert (outcome.upstream_cost_nano_usd, outcome.channel_id) == (3 * charged, CHANNEL)
    assert outcome.latency_ms == 100_000
    assert (job_end.state, job_end.by) == ("succeeded", "me")
    job = replace(open_job.job, stored_result=job_end.result)
    assert type(job.result) is type(end.result)
    lines = lines_of(outcome.detail, **TOKENS)
    assert total_nano_usd(lines, multiplier_of(outcome.detail)) == cost


def test_link_without_an_end_is_good_for_a_week_and_a_film_without_one_has_ours() -> None:
    outcome, job_end = settled(opened(), made(VideoResult(url=None)))
    until = NOW + LINK_SECONDS
    assert list(outcome.result_urls) == [f"https://gw.example/vid_1?{until:.0f}"]
    assert outcome.result_expires_at == job_end.result["expires_at"] == until
    assert settled(opened(), made(FILM))[0].result_expires_at == FILM.expires_at


def test_what_did_not_succeed_costs_nothing_and_says_why() -> None:
    end = ended_as("video", "expired")
    assert end.error is not None
    outcome, job_end = settled(opened(), end)
    assert (outcome.status, outcome.cost_nano_usd, outcome.units) == ("interrupted", 0, 0)
    assert (outcome.error_code, outcome.error_message) == ("task_expired", end.error.message)
    assert (job_end.state, job_end.result) == ("expired", None)
    lines = lines_of(outcome.detail, **TOKENS)
    assert (total_nano_usd(lines, "1"), formula(lines, "1")) == (0, "nothing to pay for = 0 USD")


prices = st.decimals(0, 1000, places=9).map(lambda value: f"{value:f}")


@given(
    unit=st.sampled_from(["per_second", "per_character", "per_generation", "per_call"]),
    usd=prices,
    multiplier=st.decimals("0.001", 10, places=3).map(lambda value: f"{value:f}"),
    quantity=st.integers(1, 10_000_000),
)
def test_any_price_comes_to_what_its_receipt_says(
    unit: Any, usd: str, multiplier: str, quantity: int
) -> None:
    price = {unit: usd, "multiplier": multiplier}
    outcome, _ = settled(opened("video", price, quantity), made(FILM))
    lines = lines_of(outcome.detail, **TOKENS)
    assert total_nano_usd(lines, multiplier_of(outcome.detail)) == outcome.cost_nano_usd


def test_price_of_a_model_is_its_resolutions_where_that_has_one() -> None:
    spec = PriceSpec(per_second=Decimal("0.1"), per_second_by_resolution={"1080p": Decimal("0.20")})
    film = film_model(price=spec, multiplier=Decimal("0.3"))
    assert MediaPrice.of(film).stated == {"per_second": "0.1", "multiplier": "0.3"}
    assert MediaPrice.of(film, resolution="720p").stated["per_second"] == "0.1"
    high = MediaPrice.of(film, resolution="1080p")
    assert high.stated == {"per_second": "0.20", "multiplier": "0.3"}
    assert high.cost_nano_usd(1001) == 60_060_000
    assert MediaPrice.as_stated(high.stated) == high


def film_model(**message: Any) -> ModelSpec:
    return make_model(endpoint_type="videos_generations", **message)


def test_price_of_a_model_is_by_the_unit_its_endpoint_is_billed_by() -> None:
    both = PriceSpec(per_call=Decimal(2), per_character=Decimal("0.1"))
    speech = make_model(endpoint_type="audio_speech", price=both)
    assert MediaPrice.of(speech).stated == {"per_character": "0.1"}
    assert MediaPrice.of(film_model(price=both)).stated == {"per_call": "2"}
    free = MediaPrice.of(film_model(price=PriceSpec()))
    assert free.cost_nano_usd(10_000) == 0
