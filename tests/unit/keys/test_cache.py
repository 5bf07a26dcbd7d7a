"""The cache of keys."""

from datetime import UTC, datetime
from typing import Any

import pytest

from actors.store.errors import StoreUnavailable
from gw.keys.cache import REREAD_SECONDS, RETRY_SECONDS
from gw.keys.entries import GRACE_SECONDS
from gw.keys.key_text import new_key_text
from gw.keys.principal import MESSAGES, KeyRefused
from tests.support.cached_keys import authenticated, remembered
from tests.support.rows import cases, each
from tests.unit.keys.fakes import KEY, OTHER, Row, World, in_world

RETRY = RETRY_SECONDS
KEPT = 5.0 + GRACE_SECONDS  # after its last read, in an outage


@in_world(
    Row(
        "key_1",
        KEY,
        name="n",
        kind="agent",
        agent_id="agent_1",
        allowed_models=["m", "n"],
        expires_at=datetime(2100, 1, 1, tzinfo=UTC),
        account_logs=True,
        spend_cap_nano_usd=7,
        rpm_limit=8,
        concurrency_limit=9,
        user="ann",
    ),
    Row("key_2", OTHER, allowed_models=[]),
)
async def test_good_key_gives_its_principal(world: World) -> None:
    principal = await authenticated(world.cache, KEY)
    assert (await authenticated(world.cache, OTHER)).allowed_models == frozenset()
    assert repr(principal) == (
        "Principal(key_id='key_1', account_id='acct_1', key_name='n',"
        " key_prefix='sk-platform-aaaaaaaa', kind='agent', agent_id='agent_1',"
        f" allowed_models={frozenset({'m', 'n'})!r}, expires_at=4102444800.0, account_logs=True,"
        " spend_cap_nano_usd=7, rpm_limit=8, concurrency_limit=9, user='ann')"
    )


@in_world(Row("key_1", KEY, expires_at=datetime(2100, 1, 1, tzinfo=UTC)))
async def test_key_that_is_known_and_good_is_recalled_without_a_read(world: World) -> None:
    assert remembered(world.cache, KEY) is None
    principal = await authenticated(world.cache, KEY, touch=False)
    assert remembered(world.cache, KEY) == principal
    assert (world.counter.hits, world.counter.misses) == (1, 1)
    assert list(world.cache.touched(2)) == ["key_1"]
    assert remembered(world.cache, KEY, touch=False) == principal
    assert world.cache.touched(2) == {}
    assert remembered(world.cache, OTHER) is None
    assert world.table.reads == 1


@in_world()
async def test_malformed_key_never_reaches_the_database(world: World) -> None:
    for text in ("", "sk-1", KEY.upper(), KEY + "a", KEY[:-1], KEY[:-1] + "é", "\udc80" * 76):
        assert await world.reason_of(text) == "malformed"
    assert world.table.reads == 0


# What happens to a cache, word by word (`Scene`); the second key is `KEY`'s neighbour.
SCENES = {
    "is remembered": "ok ok ok ok ok reads:1",
    "imported, found by its plain hash": "hash-only ok ok reads:1",
    "unknown, asked for once": "no:unknown@2 no:unknown@2 reads:1 +5 no:unknown@2 reads:2",
    "made after it was asked for": "no:unknown@2 make push:key:key_2 ok@2",
    "read again after its time": "ok name:changed +4.9 ok +0.1 is:changed",
    "expires while it is remembered": "expires:2 ok +1.9 ok +0.1 no:expired reads:1",
    "not seen before an outage": "down gone gone up ok",
    "known in an outage": f"ok down {'ok +0.5 ' * round(2 * KEPT)} gone",
    "known to be bad": "revoke no:revoked down +6 no:revoked",
    "asked for again once in a while": f"ok down +5 {'ok ' * 10} reads:2 +{RETRY} ok reads:3",
    "changed in an outage, seen soon after": f"ok down +5 ok up revoke +{RETRY} no:revoked",
    "changed in an outage, heard with the pushes": "ok down +5 ok up revoke clear no:revoked",
    "a gap leaves the grace": f"ok down clear ok +{KEPT - 1} clear ok +1 gone",
    "known to have changed": "ok push:key:key_1 down gone",
    "expires in its grace": "expires:10 ok down +9 ok +1 no:expired",
    "grace and pause": f"ok down +{KEPT - RETRY / 2} ok +{RETRY / 2} gone",
    "vouched for from when it was said": "ok +3 say +1 echo +3.9 known +0.1 stale reads:1",
    "out of date, good with the next echo": "ok +5 stale say echo known",
    "changed, not brought back by an echo": "ok revoke push:key:key_1 say echo stale no:revoked",
    "from before a gap, an echo says nothing": "ok revoke clear say echo stale no:revoked",
    "in its grace, an echo says nothing": (
        f"ok down clear ok up revoke +{RETRY} say echo no:revoked"
    ),
    "read again at last, however vouched for": (
        f"ok name:changed {'say echo ok +1 ' * round(REREAD_SECONDS)} say echo is:changed"
    ),
    "grace counts from the last heard": f"ok +20 say echo ok down +{KEPT - 0.5} ok +0.5 gone",
    "kept for as long as an outage may need it": (
        f"ok +{REREAD_SECONDS - 1} say echo known down "
        + "forget ok +0.5 " * round(2 * GRACE_SECONDS)
    ),
}


class Scene:
    """The words of a scene, each of which does something or asserts."""

    def __init__(self) -> None:
        self.world = World()
        self.heard_at = 0.0

    async def play(self, words: str) -> None:
        for word in words.split():
            word, _, which = word.partition("@")
            verb, _, what = word.partition(":")
            text = OTHER if which else KEY
            if verb[0] == "+":
                self.world.clock.advance(float(verb))
            elif verb in ("ok", "is"):
                assert await self.world.name_of(text) == (what or "test"), words
            elif verb == "no":
                assert await self.world.reason_of(text) == what, words
            elif verb == "gone":
                with pytest.raises(StoreUnavailable):
                    await self.world.name_of(text)
            else:
                self.change(verb, what)

    def change(self, verb: str, what: str) -> None:
        """Do what nobody waits for."""
        world = self.world
        table, cache, row, clock = world.table, world.cache, world.row, world.clock
        match verb:
            case "down" | "up":
                table.is_down = verb == "down"
            case "hash-only":
                row.is_hash_only = True
            case "revoke":
                row.is_revoked = True
            case "name":
                row.name = what
            case "make":
                table.rows.append(Row("key_2", OTHER))
            case "expires":
                row.expires_at = datetime.fromtimestamp(clock.now() + float(what), UTC)
            case "push":
                cache.invalidate(what)
            case "clear":
                cache.clear()
            case "say":
                self.heard_at = clock.monotonic()
            case "echo":
                cache.vouch(self.heard_at)
            case "forget":
                cache.forget_idle()
            case "known" | "stale":
                assert (remembered(cache, KEY) is not None) == (verb == "known")
            case _:
                assert (verb, int(what)) == ("reads", table.reads)


@each("words", SCENES.values())
async def test_key_is_believed_for_its_time_and_never_after_a_change(words: str) -> None:
    await Scene().play(words)


PAST = datetime(2020, 1, 1, tzinfo=UTC)


@cases(
    "change, reason",
    ({"is_revoked": True}, "revoked"),
    ({"is_enabled": False}, "disabled"),
    ({"is_account_enabled": False}, "account_inactive"),
    ({"expires_at": PAST}, "expired"),
    ({"is_revoked": True, "is_enabled": False, "is_account_enabled": False}, "revoked"),
    ({"is_enabled": False, "expires_at": PAST}, "disabled"),
)
async def test_bad_key_is_refused_with_its_reason_and_remembered(
    change: dict[str, Any], reason: str
) -> None:
    world = World(Row("key_1", KEY, **change))
    for _ in range(3):
        assert await world.reason_of() == reason
        assert remembered(world.cache, KEY) is None
    assert (world.table.reads, world.cache.touched(2)) == (1, {})


def test_every_reason_has_a_message_of_its_own() -> None:
    assert len(set(MESSAGES.values())) == len(MESSAGES) == 6
    for reason, message in MESSAGES.items():
        assert str(KeyRefused(reason)) == message


@in_world(Row("key_1", KEY), Row("key_2", OTHER), Row("key_3", new_key_text(), account_id="a"))
async def test_push_drops_the_key_or_all_keys_of_the_account(world: World) -> None:
    texts = [row.text for row in world.table.rows]

    async def read_again() -> list[str]:
        before = world.table.reads
        names = []
        for text in texts:
            await authenticated(world.cache, text)
            if world.table.reads > before:
                names.append(text)
            before = world.table.reads
        return names

    assert await read_again() == texts
    assert await read_again() == []
    world.cache.invalidate("key:key_2")
    assert await read_again() == [OTHER]
    world.cache.invalidate("account:acct_1")
    assert await read_again() == texts[:2]
    for payload in ("account:none", "key:none", "model:m", "", "key", "key:"):
        world.cache.invalidate(payload)
    assert await read_again() == []
    world.cache.clear()
    assert await read_again() == texts


@in_world(Row("key_1", KEY), Row("key_2", OTHER), Row("key_3", new_key_text()), capacity=2)
async def test_least_recently_used_leaves_first(world: World) -> None:
    third = world.table.rows[2].text
    for text in (KEY, OTHER, KEY, third):
        await authenticated(world.cache, text)
    assert repr(world.cache) == "<KeyCache 2/2 keys 0 unknown 0 loading>"
    await authenticated(world.cache, KEY)
    assert world.table.reads == 3
    await authenticated(world.cache, OTHER)
    assert world.table.reads == 4
    world.cache.invalidate("account:acct_1")
    assert repr(world.cache) == "<KeyCache 0/2 keys 0 unknown 0 loading>"


@in_world(capacity=2)
async def test_guesses_do_not_push_good_keys_out(world: World) -> None:
    await world.name_of()
    for _ in range(50):
        assert await world.reason_of(new_key_text()) == "unknown"
    reads = world.table.reads
    await world.name_of()
    assert world.table.reads == reads
    assert repr(world.cache) == "<KeyCache 1/2 keys 50 unknown 0 loading>"


async def test_memory_of_unknown_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gw.keys.cache.UNKNOWN_CAPACITY", 10)

    world = World()
    for _ in range(25):
        assert await world.reason_of(new_key_text()) == "unknown"
    assert "10 unknown" in repr(world.cache)


@in_world(Row("key_1", KEY), Row("key_2", OTHER))
async def test_last_use_is_noted_once_a_key_and_handed_over_once(world: World) -> None:
    first = world.clock.now()
    await authenticated(world.cache, KEY)
    world.clock.advance(1)
    await authenticated(world.cache, KEY)
    await authenticated(world.cache, OTHER, touch=False)
    assert world.cache.touched(2) == {"key_1": first + 1}
    assert world.cache.touched(2) == {}
    await authenticated(world.cache, OTHER)
    assert set(world.cache.touched(2)) == {"key_2"}


def agent(**changes: Any) -> dict[str, Any]:
    return {
        "id": "agent_1",
        "user": "ann",
        "system_prompt": 'Say "ahoy".',
        "model": None,
        "temperature": 0.5,
        "web_search": True,
        "image_generation": False,
        "kbs": ["default"],
        "enabled": True,
        "default_model": "m",
        "allowed_models": ["m"],
        **changes,
    }


def row(key_id: str, text: str, **changes: Any) -> Row:
    return Row(key_id, text, kind="agent", agent_id="agent_1", **{"agent": agent(), **changes})


@in_world(row("key_1", KEY))
async def test_a_key_comes_with_its_agent(world: World) -> None:
    principal = await authenticated(world.cache, KEY)
    found = principal.agent
    assert found is not None
    assert (found.id, found.user, found.kbs) == ("agent_1", "ann", ("default",))
    assert found.system_prompt == b'"Say \\"ahoy\\"."'
    assert found.allowed_models == frozenset({"m"})
    assert "ahoy" not in repr(principal) + repr(found)


@in_world(row("key_1", KEY), row("key_2", OTHER))
async def test_keys_of_an_agent_share_it_and_hear_of_its_changes(world: World) -> None:
    one, two = [(await authenticated(world.cache, text)).agent for text in (KEY, OTHER)]
    assert one is two is not None
    for changed in world.table.rows:
        changed.agent = agent(enabled=False)
    world.cache.invalidate("agent:agent_2")
    assert remembered(world.cache, KEY) is not None
    world.cache.invalidate("agent:agent_1")
    for text in (KEY, OTHER):
        assert remembered(world.cache, text) is None
        found = (await authenticated(world.cache, text)).agent
        assert found is not None
        assert found.enabled is False
