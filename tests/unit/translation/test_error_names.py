"""Names of errors in each protocol, by an upstream's word."""

from channels.translation.error_names import OTHER, RATE_LIMITED, failure_named


def test_failures_are_known_by_any_dialects_word() -> None:
    for word in ("rate_limit_error", "RESOURCE_EXHAUSTED", "429"):
        assert failure_named(word) is RATE_LIMITED
    assert failure_named("a word to come") is OTHER
    assert failure_named(None) is OTHER
