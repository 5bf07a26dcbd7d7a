"""Names of tools and ids of calls that a target accepts."""

from channels.translation.identifiers import IdentifierLimits, made_id

LIMITS = IdentifierLimits(name_characters_max=16, id_characters_max=12)


def test_good_names_stay() -> None:
    assert LIMITS.name("get_weather-1") == "get_weather-1"
    assert LIMITS.call_id("call_1") == "call_1"


def test_bad_names_become_good_and_stay_apart() -> None:
    made = [LIMITS.name(name) for name in ("a.b", "a:b", "a_b", "é", "", "x" * 17, "x" * 18)]
    assert len(set(made)) == len(made)
    for name in made:
        assert 0 < len(name) <= 16
        assert name.isascii()
    assert LIMITS.name("a.b") == LIMITS.name("a.b")


def test_made_ids_depend_on_their_seeds_only() -> None:
    assert made_id("a", "1") == made_id("a", "1") != made_id("a1", "")
    assert len(made_id("a")) == 29
