"""Whole command lines, without the commands: what is understood, and what is not."""

import json
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest

from gw.cli.key import check_key
from gw.cli.main import NOUNS, main, make_parser
from gw.keys.key import KEY
from metrics.version import commit
from tests.support.rows import cases

CREATE = ["key", "create", "--account", "acct_1", "--name", "n"]
AGENT_KEY = [*CREATE, "--kind", "agent", "--agent", "g"]
HASH = "ab" * 32


def words(line: str) -> list[str]:
    return line.split()


def parsed(*arguments: str) -> dict[str, Any]:
    options = vars(make_parser(arguments).parse_args(arguments))
    return {name: value for name, value in options.items() if name != "run"}


@cases(
    "arguments",
    ("--json", "--config", "f", "account", "show", "a"),
    ("account", "--json", "--config", "f", "show", "a"),
    ("account", "show", "--json", "--config", "f", "a"),
    ("account", "show", "a", "--config=f", "--json"),
    ("--json", "account", "--config", "f", "show", "a"),
    ("--config", "g", "--json", "account", "--config", "h", "show", "a", "--config", "f"),
)
def test_common_options_stand_anywhere(arguments: tuple[str, ...]) -> None:
    assert parsed(*arguments) == {"config": "f", "json": True, "id": "a"}


@cases(
    "arguments, options",
    (
        ["account", "create", "Ann"],
        {"name": "Ann", "credit_usd": 0, "trial": False, "rpm": None, "concurrency": None}
        | {"data": None},
    ),
    (
        words("account create --rpm 60 --concurrency 2 --trial --credit-usd 0.5 Ann"),
        {"name": "Ann", "credit_usd": 500_000_000, "trial": True, "rpm": 60, "concurrency": 2}
        | {"data": None},
    ),
    (["account", "list"], {}),
    (["account", "topup", "a", "1.5"], {"id": "a", "amount": 1_500_000_000}),
    (
        ["account", "correct", "a", "-5.5", "--reason", " why "],
        {"id": "a", "amount": -5_500_000_000, "reason": "why"},
    ),
    (["account", "topup", "a", "-5"], {"id": "a", "amount": -5_000_000_000}),
    (["account", "limits", "a"], {"id": "a"}),
    (["account", "limits", "a", "--rpm", "none"], {"id": "a", "rpm": None}),
    (["account", "limits", "a", "--concurrency", "7"], {"id": "a", "concurrency": 7}),
    (
        ["account", "set", "a", "--data", "retention=07"],
        {"id": "a", "data": "retention=7", "allow": None, "allow_all": False, "allow_none": False},
    ),
    (["account", "enable", "a"], {"id": "a"}),
    (["account", "disable", "a"], {"id": "a"}),
    (["key", "list", "--account", "a"], {"account": "a", "limit": 1000, "cursor": None}),
    (["key", "reveal", "k"], {"id": "k"}),
    (["key", "views", "k"], {"id": "k"}),
    (["key", "enable", "k"], {"id": "k"}),
    (["key", "disable", "k"], {"id": "k"}),
    (["key", "revoke", "k"], {"id": "k"}),
    (["ledger", "verify", "--all"], {"costs": False, "is_everything": True}),
    (["ledger", "verify", "--costs"], {"costs": True, "is_everything": False}),
    (["ledger", "repair"], {"apply": False, "by": None}),
    (["ledger", "repair", "--apply", "--by", " Ann "], {"apply": True, "by": "Ann"}),
    (["check-config"], {"probe": False}),
    (["check-config", "--probe"], {"probe": True}),
    (["init"], {"provider": [], "force": False}),
    (["init", "--provider", "groq", "--force"], {"provider": ["groq"], "force": True}),
    (["matrix"], {"markdown": False}),
    (["matrix", "--markdown"], {"markdown": True}),
    (["serve"], {"processes": 1, "worker": None, "parent_socket": None}),
    (["demo"], {}),
)
def test_command_line_is_understood(arguments: list[str], options: dict[str, Any]) -> None:
    assert parsed(*arguments) == options


def test_new_key_is_unrestricted_unless_it_is_stated() -> None:
    plain = {
        "account": "acct_1",
        "name": "n",
        "kind": "console",
        "agent": None,
        "allow": None,
        "allow_none": False,
        "expires": None,
        "spend_cap_usd": None,
        "data": None,
        "account_logs": False,
        "user": "owner",
    }
    assert parsed(*CREATE) == {**plain, "source": None}
    assert parsed("key", "import-hash", *CREATE[2:], "--hash", HASH) == {
        **plain,
        "hash": b"\xab" * 32,
    }
    some = words("--kind agent --agent g --allow m --allow n --spend-cap-usd 0 --account-logs")
    assert parsed(*CREATE, *some) == {
        **plain,
        "source": None,
        "kind": "agent",
        "agent": "g",
        "allow": ["m", "n"],
        "spend_cap_usd": 0,
        "account_logs": True,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["acount"],
        ["account"],
        ["account", "remove", "a"],
        ["account", "create"],
        ["account", "create", ""],
        ["account", "create", "a", "b"],
        ["account", "create", "a", "--credit-usd", "-1"],
        ["account", "create", "a", "--credit", "1"],
        ["account", "create", "a", "--rpm", "0"],
        ["account", "create", "a", "--rpm", "none"],
        ["account", "show"],
        ["account", "topup", "a"],
        ["account", "topup", "a", "much"],
        ["account", "correct", "a", "1"],
        ["account", "correct", "a", "1", "--reason", " "],
        ["account", "limits", "a", "--rpm"],
        ["key", "create", "--name", "n"],
        ["key", "create", "--account", "a"],
        [*CREATE, "--kind", "master"],
        [*CREATE, "--allow", "m", "--allow-none"],
        [*CREATE, "--allow-all"],
        [*CREATE, "--expires", "soon"],
        [*CREATE, "--expires", "none"],
        ["key", "list"],
        ["key", "set"],
        ["key", "set", "k", "--allow", "m", "--allow-all"],
        ["key", "set", "k", "--allow-none", "--allow-all"],
        ["key", "set", "k", "--account-logs", "--no-account-logs"],
        ["key", "import-hash", *CREATE[2:]],
        ["key", "import-hash", *CREATE[2:], "--hash", "12"],
        ["ledger"],
        ["--conf", "f", "account", "list"],
        ["serve", "--processes", "0"],
    ],
)
def test_command_line_that_is_wrong_says_so(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: gw")
    assert "\nerror: " in captured.err

    assert main([*arguments, "--json"]) == 2
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    error = json.loads(line)["error"]
    assert error["code"] == "usage"
    assert f"error: {error['message']}\n" in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["account", "limits", "a"], "nothing to set"),
        (["key", "set", "k"], "nothing to set"),
        ([*CREATE, "--agent", "g"], "an agent goes with the kind agent"),
        ([*CREATE, "--kind", "agent"], "an agent goes with the kind agent"),
        ([*AGENT_KEY, "--allow", "m"], "no list of models"),
        ([*AGENT_KEY, "--allow-none"], "no list of models"),
        ([*AGENT_KEY, "--account-logs"], "reads no logs"),
        (["account", "set", "a"], "nothing to set"),
        (["agent", "set", "g"], "nothing to set"),
        (["agent", "usage", "g", "--period", "8d"], "`period` takes"),
        (["agent", "usage", "g", "--from", "2026-01-01"], "given together"),
        (["key", "request", "--account", "a", "--agent", "g", "--name", "n"], "required"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_opened(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--config", "/nowhere"]) == 2
    assert message in capsys.readouterr().err


def test_checks_pass_what_goes_together() -> None:
    for options in ([], ["--kind", "agent", "--agent", "g"]):
        check_key(make_parser(CREATE).parse_args([*CREATE, *options]))
    for options in (["--allow-all"], ["--expires", "none"]):
        words = ["key", "set", "k", *options]
        assert KEY.changes_of_options(make_parser(words).parse_args(words), None)


def test_top_up_below_the_minimum_is_refused_before_anything_is_opened(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for amount in ("0.999999999", "0", "-1"):
        assert main(["account", "topup", "a", amount, "--config", "/nowhere", "--json"]) == 1
        error = json.loads(capsys.readouterr().out)["error"]
        assert error["code"] == "amount_too_small"
        assert "at least 1 USD" in error["message"]


def test_help_is_there_for_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ([], ["account"], ["account", "create"], ["key", "set"], ["serve"]):
        with pytest.raises(SystemExit) as caught:
            main([*command, "--help"])
        assert caught.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: {' '.join(['gw', *command])} ")


@pytest.mark.parametrize("line", ["--version", "account --version", "account show --version"])
def test_version_is_printed_wherever_it_is_requested(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if line == "--version":
        number, built = version("model-gateway"), commit()
        assert main(words(line)) == 0
        shown = f"gw {number} (commit {built})" if built else f"gw {number}"
        assert capsys.readouterr().out == f"{shown}\n"
        assert main(["--json", "--version"]) == 0
        assert json.loads(capsys.readouterr().out) == {"version": number, "commit": built}
    else:  # only `gw` itself has one
        assert main(words(line)) == 2


def every_parser(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """A parser, and those of all commands below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for inner in action.choices.values():
                yield from every_parser(inner)


def test_every_option_has_words() -> None:
    parsers = list(every_parser(make_parser([])))
    assert len(parsers) > len(NOUNS)
    silent = [
        f"{parser.prog} {'/'.join(action.option_strings) or action.dest}"
        for parser in parsers
        for action in parser._actions
        if not isinstance(action, _SubParsersAction) and not (action.help or "").strip()
    ]
    assert silent == []


def test_every_command_has_words() -> None:
    for parser in every_parser(make_parser([])):
        assert parser.description, parser.prog
        assert parser.format_help()  # each % in words is one of argparse's own
