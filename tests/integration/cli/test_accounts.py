"""`gw account` and `gw ledger` on a real PostgreSQL."""

from gw.cli.arguments import instant
from loadtests.rig.transactions import transaction
from tests.integration.cli.command import Gw


def test_account_is_made_with_what_was_requested(gw: Gw) -> None:
    account = gw.run_json("account", "create", "Ann")
    assert account["id"].startswith("acct_")
    assert len(account["id"]) == 25
    assert instant(account.pop("created_at"))
    assert account == {
        "id": account["id"],
        "name": "Ann",
        "enabled": True,
        "balance_usd": "0",
        "held_usd": "0",
        "available_usd": "0",
        "rpm_limit": None,
        "concurrency_limit": None,
        "data_demand": None,
        "default_model": None,
        "allowed_models": None,
        "balance_alerts_usd": [],
    }
    options = ["--credit-usd", "2.000000001", "--trial", "--rpm", "60", "--concurrency", "3"]
    account = gw.run_json("account", "create", "Bob", *options)
    assert account["balance_usd"] == account["available_usd"] == "2.300000001"
    assert (account["rpm_limit"], account["concurrency_limit"]) == (60, 3)
    assert gw.run_json("account", "show", account["id"]) == account


def test_credit_at_creation_may_be_less_than_a_top_up(gw: Gw) -> None:
    assert gw.run_json("account", "create", "a", "--credit-usd", "0.000000001")["balance_usd"] == (
        "0.000000001"
    )
    assert gw.run_json("account", "create", "b", "--credit-usd", "0")["balance_usd"] == "0"
    assert gw.run_json("ledger", "verify")["counts"]["entries"] == 1


def test_accounts_are_listed(gw: Gw) -> None:
    assert gw.run_json("account", "list") == {"accounts": []}
    made = [gw.run_json("account", "create", name) for name in ("Ann", "Größe", "Ann")]
    assert gw.run_json("account", "list") == {"accounts": made}
    lines = gw.run("account", "list").out.splitlines()
    assert lines[0].split()[:3] == ["id", "name", "enabled"]
    assert [line.split()[0] for line in lines[1:]] == [account["id"] for account in made]


def test_top_up_adds_to_the_balance(gw: Gw) -> None:
    account_id = gw.run_json("account", "create", "Ann", "--trial")["id"]
    assert gw.run_json("account", "topup", account_id, "1")["balance_usd"] == "1.3"
    assert gw.run_json("account", "topup", account_id, "2.5")["balance_usd"] == "3.8"
    assert gw.refuses("account", "topup", account_id, "0.99")[0] == "amount_too_small"
    assert gw.run_json("account", "show", account_id)["balance_usd"] == "3.8"
    text = gw.run("account", "show", account_id).out
    assert "balance_usd         3.8\n" in text
    assert "rpm_limit           -\n" in text


def test_top_up_beyond_what_the_ledger_holds_is_refused(gw: Gw) -> None:
    account_id = gw.run_json("account", "create", "Ann", "--credit-usd", "4000000000")["id"]
    gw.run_json("account", "topup", account_id, "4000000000")
    code, message = gw.refuses("account", "topup", account_id, "4000000000")
    assert code == "balance_out_of_range"
    assert account_id in message
    assert gw.run_json("ledger", "verify")["ok"] is True


def test_correction_is_an_entry_of_its_own_with_its_reason(gw: Gw, database_url: str) -> None:
    account_id = gw.run_json("account", "create", "Ann", "--credit-usd", "5")["id"]
    done = gw.run_json("account", "correct", account_id, "-7.5", "--reason", "paid twice: CASE 7")
    assert done["balance_usd"] == "-2.5"
    assert (
        gw.run_json("account", "correct", account_id, "3", "--reason", "x")["balance_usd"] == "0.5"
    )
    assert gw.run_json("ledger", "verify")["ok"] is True
    trail = gw.run_json("admin", "audit")["changes"]
    (first,) = [one for one in trail if one["details"].get("reason") == "paid twice: CASE 7"]
    assert (first["action"], first["details"]["amount_usd"]) == ("account.correct", "-7.5")
    with transaction(database_url) as cursor:
        cursor.execute(
            "SELECT amount_nano_usd, key_id, call_id FROM entries WHERE kind = 'correction'"
            " ORDER BY id"
        )
        assert cursor.fetchall() == [(-7_500_000_000, None, None), (3_000_000_000, None, None)]
    for amount, reason in (("0", "x"), ("much", "x"), ("1", " "), ("1", "a\nb"), ("1", "r" * 501)):
        gw.refuses("account", "correct", account_id, amount, "--reason", reason, exit_code=2)
    code, _ = gw.refuses("account", "correct", "acct_none", "1", "--reason", "x")
    assert code == "account_not_found"
    gw.run_json("account", "correct", account_id, "-4000000000", "--reason", "x")
    gw.run_json("account", "correct", account_id, "-3999999999", "--reason", "x")
    code, _ = gw.refuses("account", "correct", account_id, "-4", "--reason", "x")
    assert code == "balance_out_of_range"
    assert gw.run_json("ledger", "verify")["ok"] is True


def test_limits_are_set_and_lifted(gw: Gw) -> None:
    account_id = gw.run_json("account", "create", "Ann", "--rpm", "5")["id"]

    def limits(*options: str) -> tuple[int | None, int | None]:
        account = gw.run_json("account", "limits", account_id, *options)
        return account["rpm_limit"], account["concurrency_limit"]

    assert limits("--concurrency", "7") == (5, 7)
    assert limits("--rpm", "none") == (None, 7)
    assert limits("--rpm", "9", "--concurrency", "none") == (9, None)


def test_account_is_disabled_and_enabled(gw: Gw) -> None:
    account_id = gw.run_json("account", "create", "Ann")["id"]
    for verb, enabled in (("disable", False), ("disable", False), ("enable", True)):
        assert gw.run_json("account", verb, account_id)["enabled"] is enabled


def test_account_that_is_not_there_is_named(gw: Gw) -> None:
    for command in (
        ["show", "acct_1"],
        ["topup", "acct_1", "5"],
        ["limits", "acct_1", "--rpm", "1"],
        ["enable", "acct_1"],
        ["disable", "acct_1"],
    ):
        refusal = gw.refuses("account", *command)
        assert refusal == ("account_not_found", "there is no account acct_1")
    stated = gw.run("account", "show", "acct_1")
    assert (stated.exit_code, stated.out) == (1, "")
    assert stated.err == "error: there is no account acct_1\n"


def test_ledger_that_adds_up_is_counted(gw: Gw) -> None:
    gw.run_json("account", "create", "Ann", "--trial", "--credit-usd", "1")
    assert gw.run_json("ledger", "verify") == {
        "ok": True,
        "since": None,
        "sealed": [],
        "counts": {
            "accounts": 1,
            "entries": 2,
            "open_holds": 0,
            "leases": 0,
            "call_log_rows": 0,
            "idempotency_keys": 0,
            "events": 1,
            "budgets": 0,
            "budget_sums": 0,
        },
        "faults": [],
    }
    assert "the ledger adds up" in gw.run("ledger", "verify").out


def last_proof(database_url: str) -> tuple[bool, int]:
    """Whether the last proof was made just now, and how many rows were off."""
    with transaction(database_url) as cursor:
        cursor.execute("SELECT proved_at > now() - interval '5 min', faults FROM ledger_proofs")
        ((is_recent, faults),) = cursor.fetchall()
    return is_recent, faults


def test_each_proof_is_remembered_for_the_gateways(gw: Gw, database_url: str) -> None:
    gw.run_json("account", "create", "Ann", "--trial")
    gw.run_json("ledger", "verify")
    assert last_proof(database_url) == (True, 0)
    with transaction(database_url) as cursor:
        cursor.execute("UPDATE accounts SET balance_nano_usd = 1")
    assert gw.run("ledger", "verify").exit_code == 1
    assert last_proof(database_url) == (True, 1)


def test_ledger_that_does_not_add_up_is_shown_and_fails(gw: Gw, database_url: str) -> None:
    account_id = gw.run_json("account", "create", "Ann", "--trial")["id"]
    with transaction(database_url) as cursor:
        cursor.execute("UPDATE accounts SET balance_nano_usd = 1")
    stated = gw.run("ledger", "verify")
    assert stated.exit_code == 1
    assert "balance_is_sum_of_entries does not hold" in stated.out
    assert account_id in stated.out
    stated = gw.run("ledger", "verify", "--json")
    assert stated.exit_code == 1
    assert stated.out.count("\n") == 1
    assert '"ok": false' in stated.out
    assert '"entries_balance_nano_usd": 300000000' in stated.out
