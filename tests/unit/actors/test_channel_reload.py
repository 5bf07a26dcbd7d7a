"""What a reload does to the channel actors, and to the leases that are out."""

from actors.channel import ChannelActor, ChannelLease, Denied
from tests.support.specs import make_channel
from tests.unit.actors.channels import channels, settle


def lease(actor: ChannelActor) -> ChannelLease:
    response = actor.acquire()
    assert isinstance(response, ChannelLease)
    return response


async def test_reload_adds_changes_and_removes_channels() -> None:
    async with channels(make_channel("a"), make_channel("b")) as made:
        a = made.directory["a"]
        made.configure(make_channel("a", max_concurrency=3), make_channel("c"))
        assert list(made.directory) == ["a", "c"]
        assert made.directory["a"] is a
        await settle(a)
        assert a.spec.max_concurrency == 3
        assert isinstance(made.directory["c"].acquire(), ChannelLease)


async def test_unchanged_channel_is_left_alone() -> None:
    async with channels(make_channel("a")) as made:
        made.configure(make_channel("a"))
        assert len(made.directory["a"].mailbox) == 0


async def test_removed_channel_takes_back_the_leases_that_are_out() -> None:
    async with channels(make_channel("a"), make_channel("b")) as made:
        a = made.directory["a"]
        held = lease(a)
        made.configure(make_channel("b"))
        assert "a" not in made.directory
        held.release("success")
        await settle(a)
        assert a.in_use == 0


async def test_channel_that_comes_back_knows_the_slots_that_are_still_out() -> None:
    async with channels(make_channel("a", max_concurrency=1)) as made:
        held = lease(made.directory["a"])
        made.configure()
        made.configure(make_channel("a", max_concurrency=2))
        back = made.directory["a"]
        second = back.acquire()
        assert isinstance(second, ChannelLease)
        assert back.acquire() == Denied("full")
        held.release("success")
        second.release("success")
        await settle(back)
        assert back.in_use == 0


async def test_removed_channel_leaves_the_metrics_whatever_its_mailbox_still_holds() -> None:
    async with channels(make_channel("a")) as made:
        a = made.directory["a"]
        held, other = lease(a), lease(a)
        assert made.samples("gw_channel_slots_in_use", "a")
        held.release("success")  # still in the mailbox when the channel is removed
        made.configure()
        await settle(a)
        other.release("success")
        await settle(a)
        assert made.samples("gw_channel", "a") == {}
