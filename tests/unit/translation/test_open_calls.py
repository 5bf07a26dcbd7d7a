"""Which call a result without an id belongs to."""

from channels.translation.open_calls import OpenCalls


def test_oldest_open_call_of_a_name_or_of_any_is_found() -> None:
    calls = OpenCalls()
    for name, call_id in (("f", "1"), ("g", "2"), ("f", "3")):
        calls.add(name, call_id)
    assert (calls.oldest(), calls.oldest("f"), calls.oldest("g")) == ("1", "1", "2")
    calls.resolve("1")
    assert (calls.oldest(), calls.oldest("f"), calls.oldest("h")) == ("2", "3", None)
    calls.resolve("unknown")
    calls.resolve("2")
    calls.resolve("3")
    assert calls.oldest() is None
    assert repr(calls) == "<OpenCalls 0>"


def test_calls_of_one_id_are_answered_together_or_by_their_name() -> None:
    calls = OpenCalls()
    for name in ("f", "g", "f"):
        calls.add(name, "x")
    calls.resolve_named("f", "x")
    assert (calls.oldest("f"), calls.oldest("g")) == ("x", "x")
    calls.resolve_named("f", "x")
    calls.resolve_named("f", "x")  # there is no third
    assert (calls.oldest("f"), calls.oldest("g")) == (None, "x")
    calls.add("h", "x")
    calls.resolve("x")
    assert calls.oldest() is None
