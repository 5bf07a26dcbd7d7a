"""`gw budget` on a real PostgreSQL."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from tests.integration.cli.command import Gw


def make(gw: Gw, account: str, *words: str, **options: str) -> dict[str, Any]:
    return gw.run_json("budget", "create", *wish(account, **options), *words)


def wish(account: str, **options: str) -> list[str]:
    named = {
        "account": account,
        "name": "all",
        "scope": "account",
        "limit_usd": "5",
        "period": "month",
        **options,
    }
    return [f"--{name.replace('_', '-')}={value}" for name, value in named.items()]


def text_of(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


def test_budget_is_shown_with_every_member(gw: Gw, account: str) -> None:
    budget = make(gw, account)
    now = datetime.now(UTC)
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    assert budget["id"].startswith("bud_")
    assert budget["starts_at"] == budget["created_at"]
    assert budget == {
        "id": budget["id"],
        "account_id": account,
        "name": "all",
        "scope": "account",
        "subject": None,
        "limit_usd": "5",
        "period": "month",
        "time_zone": "UTC",
        "action": "refuse",
        "warn_at": [80],
        "made_by": "operator",
        "starts_at": budget["created_at"],
        "created_at": budget["created_at"],
        "deleted_at": None,
        "current": {
            "period_from": text_of(month),
            "resets_at": text_of((month + timedelta(days=32)).replace(day=1)),
            "spent_usd": "0",
            "held_usd": "0",
            "remaining_usd": "5",
            "excess_usd": "0",
        },
    }
    assert gw.run_json("budget", "show", budget["id"]) == budget
    assert gw.run_json("budget", "list", "--account", account) == {"budgets": [budget]}
    assert budget["id"] in gw.run("budget", "list", "--account", account).out
    assert "remaining_usd  5\n" in gw.run("budget", "show", budget["id"]).out


def test_budget_is_set_and_deleted(gw: Gw, account: str) -> None:
    budget = make(gw, account)
    words = ["--name=most", "--limit-usd=2.5", "--action=warn", "--warn-at=50", "--warn-at=90"]
    changed = gw.run_json("budget", "set", budget["id"], *words)
    assert changed == {
        **budget,
        "name": "most",
        "limit_usd": "2.5",
        "action": "warn",
        "warn_at": [50, 90],
        "current": {**budget["current"], "remaining_usd": "2.5"},
    }
    none = gw.run_json("budget", "set", budget["id"], "--warn-at", "none")
    assert none == {**changed, "warn_at": []}
    gone = gw.run_json("budget", "delete", budget["id"])
    assert gone == {**none, "deleted_at": gone["deleted_at"]}
    assert gone["deleted_at"] > gone["created_at"]
    assert gw.run_json("budget", "list", "--account", account) == {"budgets": []}
    assert gw.run_json("budget", "list", "--account", account, "--deleted") == {"budgets": [gone]}
    assert gw.run_json("budget", "show", budget["id"]) == gone
    for command in (["set", budget["id"], "--name", "n"], ["delete", budget["id"]]):
        assert gw.refuses("budget", *command)[0] == "budget_not_found"
    # Its name and its place are free again.
    assert make(gw, account, name="most")["id"] != budget["id"]


def test_change_raises_the_version_of_the_account_and_calls_its_leases_back(
    gw: Gw, account: str, database_url: str
) -> None:
    with psycopg2.connect(database_url) as connection, connection.cursor() as cursor:

        def version() -> int:
            cursor.execute("SELECT budgets_version FROM accounts WHERE id = %s", (account,))
            connection.commit()
            row = cursor.fetchone()
            assert row is not None
            return int(row[0])

        first = version()
        budget = make(gw, account)["id"]
        assert version() > first
        first = version()
        gw.run_json("budget", "set", budget, "--limit-usd", "1")
        assert version() > first
        first = version()
        gw.run_json("budget", "delete", budget)
        assert version() > first


def test_lease_of_a_silent_process_is_taken_before_the_answer(
    gw: Gw, account: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.lease_returns.STALE_SECONDS", 0.2)
    with psycopg2.connect(database_url) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO leases VALUES ('dead', %s, 7)", (account,))
        cursor.execute("UPDATE accounts SET leased_nano_usd = 7, balance_nano_usd = 9")
        connection.commit()
        make(gw, account)
        cursor.execute("SELECT leased_nano_usd FROM accounts WHERE id = %s", (account,))
        assert cursor.fetchone() == (0,)
        cursor.execute("SELECT amount_nano_usd, called_at IS NULL FROM leases")
        assert cursor.fetchone() == (0, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scope": "user"}, "needs a subject"),
        ({"subject": "ann"}, "has no subject"),
        ({"scope": "model", "subject": "gpt-larg"}, "did you mean gpt-large?"),
        ({"scope": "agent", "subject": "agent_1"}, "has no agent agent_1"),
        ({"scope": "label", "subject": "Team=a"}, "is not KEY=VALUE"),
        ({"scope": "nobody"}, "invalid choice"),
        ({"time_zone": "Europe/Berlim"}, "is no time zone"),
        ({"time_zone": "localtime"}, "is no time zone"),
        ({"time_zone": "+1:00"}, "is no time zone"),
        ({"time_zone": "+01:60"}, "is no time zone"),
        ({"time_zone": "-16:00"}, "is no time zone"),
        ({"limit_usd": "1.0000000001"}, "is not an amount"),
        ({"limit_usd": "-1"}, "is negative"),
        ({"warn_at": "0"}, "is not a whole percent"),
        ({"name": " "}, "a name is needed"),
        ({"starts": "2020-01-01T00:00:00Z"}, "lies in the past"),
        ({"starts": "soon"}, "is not an RFC 3339 time"),
    ],
)
def test_bad_input_is_a_fault_of_the_line(
    gw: Gw, account: str, options: dict[str, str], message: str
) -> None:
    code, text = gw.refuses("budget", "create", *wish(account, **options), exit_code=2)
    assert (code, message in text) == ("usage", True), text
    assert gw.run_json("budget", "list", "--account", account) == {"budgets": []}


def test_model_is_kept_by_its_id_and_a_zone_as_it_is_written(gw: Gw, account: str) -> None:
    model = make(gw, account, scope="model", subject="gpt-latest", time_zone="Asia/Kathmandu")
    assert (model["subject"], model["time_zone"]) == ("gpt-large", "Asia/Kathmandu")
    begun = datetime.fromisoformat(model["current"]["period_from"])
    assert (begun.hour, begun.minute) == (18, 15)
    offset = make(gw, account, "--time-zone", "-03:30", name="west", period="day")
    begun = datetime.fromisoformat(offset["current"]["period_from"])
    assert (begun.hour, begun.minute) == (3, 30)
    total = make(gw, account, name="ever", period="total")
    assert total["current"]["period_from"] == total["starts_at"]
    assert total["current"]["resets_at"] is None


def test_name_and_place_are_unique_among_live_ones(gw: Gw, account: str) -> None:
    make(gw, account)
    for options in ({"scope": "every_user"}, {"name": "other"}):
        code, text = gw.refuses("budget", "create", *wish(account, **options))
        assert (code, "the budget all" in text) == ("budget_exists", True)
    other = make(gw, account, name="other", period="day")
    assert gw.refuses("budget", "set", other["id"], "--name", "all")[0] == "budget_exists"
    gw.run_json("budget", "set", other["id"], "--name", "other")
    neighbour = gw.run_json("account", "create", "Bob")["id"]
    make(gw, neighbour)
    assert gw.refuses("budget", "create", *wish("acct_1"))[0] == "account_not_found"


def test_one_call_matches_no_more_than_sixteen(gw: Gw, account: str) -> None:
    for number, period in enumerate(("day", "week", "month", "total")):
        for scope in ("account", "every_user", "every_end_user", "every_run"):
            make(gw, account, name=f"{scope} {number}", scope=scope, period=period)
    narrow = {"name": "ann", "scope": "user", "subject": "ann"}
    make(gw, account, **narrow)  # in place of that of every user
    code, text = gw.refuses(
        "budget", "create", *wish(account, name="m", scope="model", subject="gpt-small")
    )
    assert (code, "more than 16" in text) == ("too_many_budgets", True)


def test_account_has_no_more_than_a_thousand(
    gw: Gw, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gw.admin.budgets.BUDGETS_MAX", 2)
    for user in ("ann", "bob"):
        make(gw, account, name=user, scope="user", subject=user)
    full = wish(account, name="cy", scope="user", subject="cy")
    assert gw.refuses("budget", "create", *full)[0] == "too_many_budgets"


def test_sum_of_each_subject_is_shown_when_it_is_requested(
    gw: Gw, account: str, database_url: str
) -> None:
    budget = make(gw, account, scope="every_user", period="day")
    assert budget["current"] is None
    yesterday = datetime.now(UTC) - timedelta(days=1)
    with psycopg2.connect(database_url) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE budgets SET starts_at = starts_at - interval '1 day'")
        for at, spent in ((yesterday, 7), (datetime.now(UTC), 1)):
            cursor.execute(
                "INSERT INTO budget_sums (account_id, budget_id, subject, period_from, period_to,"
                " spent_nano_usd, held_nano_usd, excess_nano_usd) VALUES (%s, %s, 'ann', %s, %s,"
                " %s, 2000000000, 5)",
                (
                    account,
                    budget["id"],
                    at.replace(hour=0, minute=0, second=0, microsecond=0),
                    None,
                    spent * 10**9,
                ),
            )
    now = gw.run_json("budget", "show", budget["id"], "--subject", "ann")["current"]
    assert (now["spent_usd"], now["held_usd"], now["remaining_usd"], now["excess_usd"]) == (
        "1",
        "2",
        "2",
        "0.000000005",
    )
    day = ("--at", text_of(yesterday))
    was = gw.run_json("budget", "show", budget["id"], "--subject", "ann", *day)["current"]
    assert (was["spent_usd"], was["remaining_usd"]) == ("7", "0")
    assert was["resets_at"] == now["period_from"]
    none = gw.run_json("budget", "show", budget["id"], "--subject", "bob")["current"]
    assert (none["spent_usd"], none["remaining_usd"]) == ("0", "5")
    before = text_of(datetime.now(UTC) - timedelta(days=3))
    earlier = gw.run_json("budget", "show", budget["id"], "--subject", "ann", "--at", before)
    assert earlier["current"] is None
    last = "9999-12-31T23:59:59.999999Z"  # of the calendar: its day ends in no later year
    at_last = gw.run_json("budget", "show", budget["id"], "--subject", "ann", "--at", last)
    assert at_last["current"]["resets_at"] == last
    assert gw.refuses("budget", "show", budget["id"], "--subject", "a b", exit_code=2)
    other = make(gw, account, name="other")
    assert gw.refuses("budget", "show", other["id"], "--subject", "ann", exit_code=2)


def test_budget_that_has_not_started_shows_no_figures(gw: Gw, account: str) -> None:
    later = text_of(datetime.now(UTC) + timedelta(days=2))
    budget = make(gw, account, starts=later)
    assert budget["starts_at"] == later
    assert budget["current"] is None


def test_every_change_is_in_the_audit_trail(gw: Gw, account: str, tmp_path: Path) -> None:
    budget = make(gw, account, scope="label", subject="team=a")["id"]
    gw.run_json("budget", "set", budget, "--limit-usd", "1", "--warn-at", "none")
    gw.run_json("budget", "delete", budget)
    trail = gw.run_json("admin", "audit", "--object", budget)["changes"]
    assert [(one["action"], one["account_id"], one["details"]) for one in trail] == [
        ("budget.delete", account, {}),
        ("budget.set", account, {"limit_usd": "1", "warn_at": []}),
        (
            "budget.create",
            account,
            {
                "name": "all",
                "scope": "label",
                "subject": "team=a",
                "limit_usd": "5",
                "period": "month",
                "time_zone": "UTC",
                "action": "refuse",
                "warn_at": [80],
                "starts_at": trail[-1]["details"]["starts_at"],
            },
        ),
    ]


def test_end_user_is_stored_as_calls_are_matched(gw: Gw, account: str) -> None:
    named = {"name": "eve", "scope": "end_user", "subject": "eve"}
    assert make(gw, account, **named)["subject"] == "eve"
    gw.config.write_text(gw.config.read_text() + "attribution: {end_user: digest}\n")
    kept = make(gw, account, **{**named, "name": "digest"})["subject"]
    assert len(kept) == 35
    assert kept.startswith("eu_")
    code, _ = gw.refuses(
        "budget", "create", *wish(account, name="again", scope="end_user", subject=kept)
    )
    assert code == "budget_exists"
    every = make(gw, account, name="every", scope="every_end_user")["id"]
    for subject in ("eve", kept):
        assert gw.run_json("budget", "show", every, "--subject", subject)["current"] is not None
