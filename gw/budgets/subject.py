"""The scopes of budgets, and what each one's subject is (reference 11.2).

`canonical.py` says what of it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.wallet.attribution import (
    END_USER_CHARACTERS_MAX,
    LABEL_CHARACTERS_MAX,
    RUN_CHARACTERS_MAX,
    is_end_user,
    is_label_key,
    is_label_value,
    is_run,
)
from gw.nouns.refused import Invalid
from gw.nouns.values import identifier, user_name


def end_user(text: str) -> str:
    """Read the name of an end user, or its digest. Raises Invalid."""
    if not is_end_user(text):
        raise Invalid(f"an end user is 1 to {END_USER_CHARACTERS_MAX} printable characters")
    return text


def run(text: str) -> str:
    """Read the name of a run. Raises Invalid."""
    if not is_run(text):
        raise Invalid(
            f"{text[:40]!a} is not a run: 1 to {RUN_CHARACTERS_MAX} of A-Z a-z 0-9 . _ : / @ -"
        )
    return text


def label(text: str) -> str:
    """Read a label with its value. Raises Invalid."""
    key, separator, value = text.partition("=")
    if not (separator and is_label_key(key) and is_label_value(value)):
        raise Invalid(
            f"{text[:40]!a} is not KEY=VALUE: a key is a letter and up to 31 of a-z 0-9 _ . -, a"
            f" value 1 to {LABEL_CHARACTERS_MAX} of A-Z a-z 0-9 . _ : / @ -"
        )
    return text


# Whose spending a budget counts, and how its subject is read; None: it has none.
SCOPES: Mapping[str, Callable[[str], str] | None] = {
    "account": None,
    "user": user_name,
    "agent": identifier,
    "model": identifier,
    "label": label,
    "end_user": end_user,
    "run": run,
    "every_user": None,
    "every_end_user": None,
    "every_run": None,
}
# Each value of such a scope has a sum of its own, and this is how it is read. A budget of the
# narrower scope stands in place of one of these, of the same period, for its subject.
EVERY: Mapping[str, Callable[[str], str]] = {
    "every_user": user_name,
    "every_end_user": end_user,
    "every_run": run,
}
NARROWER: Mapping[str, str] = {scope: scope.removeprefix("every_") for scope in EVERY}


def check_subject(scope: str, subject: str | None) -> None:
    """Raise Invalid for a subject that is missing, superfluous or malformed."""
    read = SCOPES[scope]
    if read is None:
        if subject is not None:
            raise Invalid(f"a budget of the scope {scope} has no subject")
    elif subject is None:
        raise Invalid(f"a budget of the scope {scope} needs a subject")
    else:
        read(subject)


def check_value(scope: str, value: str) -> None:
    """Raise Invalid for a text that is no subject of a budget, or of a sum, of this scope."""
    read = EVERY.get(scope) or SCOPES[scope]
    if read is not None:
        read(value)


def value_of(scope: str, subject: str | None, asked: str | None) -> str | None:
    """Return the value whose sum a budget shows: none, the asked one, or None: it shows no sum.

    Raises Invalid for another value than that of a budget with one sum.
    """
    if scope in EVERY:
        return asked
    if asked is not None and asked != subject:
        raise Invalid(f"a budget of the scope {scope} has one sum, of no other subject")
    return ""
