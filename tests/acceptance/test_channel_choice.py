"""Which channel a call goes to: health, and the keys of conversations (reference 10.1)."""

from typing import Any

from loadtests.rig.client import Call, Client
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.support.rows import each

FAILURES = 3
# A breaker that soon lets a probe by.
RECOVERS = {"failures": FAILURES, "cooldown": 0.2}
# With three keys each.
KEYED = ("first", "second")
# A model on a channel of the same name, which fails or not as the test likes, and on `backup`.
PROBED = "probe-succeeds"
SETTINGS: dict[str, Any] = {
    "channels": [
        channel(PROBED, priority=1, health=RECOVERS),
        channel("backup", priority=2),
        *(channel(name, api_key=[f"{name}-key-{n}" for n in range(3)]) for name in KEYED),
    ],
    "models": [model(PROBED, PROBED, "backup"), model("keyed", *KEYED)],
}


def state_of(h: Deployment, name: str) -> str:
    """The state of a channel's breaker as the metrics show it."""
    states = h.metrics("gw_channel_state")
    (state,) = [
        state
        for state in ("closed", "open", "half_open")
        if states[f'channel="{name}",state="{state}"']
    ]
    return state


def slots_in_use(h: Deployment, name: str) -> int:
    """How many slots of a channel are leased, as the metrics show it."""
    return int(h.metrics("gw_channel_slots_in_use")[f'channel="{name}"'])


def logged(h: Deployment, action: str, name: str) -> int:
    """How many lines of the log say this of a channel."""
    return sum(line["channel"] == name for line in h.events(action))


def requested(h: Deployment, name: str) -> int:
    return h.upstream.requested(name)[0]


def open_breaker(h: Deployment, client: Client, name: str, **directive: Any) -> None:
    """Make a channel fail until its breaker opens."""
    h.upstream.fault(name, **directive)
    for _ in range(FAILURES):
        client.chat(model=name, stream=True)
    assert state_of(h, name) == "open"
    assert requested(h, name) == FAILURES


def test_opened_channel_recovers_by_one_probe(h: Deployment, tenant: Tenant) -> None:
    client, name = tenant.client, PROBED
    open_breaker(h, client, name, status=500)
    h.upstream.fault(name, hang="headers")  # the probe will neither succeed nor fail

    def probe() -> Call | None:
        so_far = h.upstream.stats()["requests"]
        call = client.begin_chat(model=name)
        h.upstream.wait(requests=so_far + 1)
        if requested(h, name) == FAILURES + 1:
            return call
        assert call.response().status == 200
        return None

    with until(probe, what="the probe"):
        assert state_of(h, name) == "half_open"
        for _ in range(5):
            assert client.chat(model=name).status == 200
        assert requested(h, name) == FAILURES + 1
    # Its client has left, so it proved nothing: the next one is the probe, and it succeeds.
    h.upstream.heal(name)
    until(lambda: slots_in_use(h, name) == 0, what="the probe's slot")
    assert state_of(h, name) == "half_open"
    assert client.chat(model=name).status == 200
    assert requested(h, name) == FAILURES + 2
    assert state_of(h, name) == "closed"
    for _ in range(3):
        assert client.chat(model=name).status == 200
    assert requested(h, name) == FAILURES + 5
    until(lambda: logged(h, "channel_half_opened", name), what="a line of the log")
    until(lambda: logged(h, "channel_closed", name), what="a line of the log")


def keys_of(h: Deployment, client: Client, *calls: dict[str, Any]) -> list[str]:
    """The key of an upstream that each of these calls goes out with."""
    for call in calls:
        assert client.chat(model="keyed", **call).status == 200
    requests = h.upstream.requests(len(calls))
    return [request["headers"]["authorization"] for request in requests]


SYSTEM = {"role": "system", "content": "You write code."}
TURNS: list[dict[str, Any]] = [{"role": role, "content": role} for role in ("user", "assistant")]


@each("named", ["header", "key", "user", "prefix"])
def test_conversation_keeps_one_key_of_its_channel(
    h: Deployment, tenant: Tenant, named: str
) -> None:
    def turn(number: int, conversation: str) -> dict[str, Any]:
        wanted = {"role": "user", "content": f"The question of {conversation}."}
        turns = {"messages": [SYSTEM, wanted, *TURNS * number]}
        if named == "header":
            return {"headers": {"x-claude-code-session-id": conversation}}
        if named == "prefix":
            return turns
        return {{"key": "prompt_cache_key", "user": "user"}[named]: conversation}

    assert len(set(keys_of(h, tenant.client, *(turn(n, "one") for n in range(5))))) == 1
    assert len(set(keys_of(h, tenant.client, *(turn(0, f"other {n}") for n in range(24))))) > 3
