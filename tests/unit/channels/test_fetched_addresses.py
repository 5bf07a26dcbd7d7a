"""What may be fetched from."""

from channels.address_scope import allowing, scope_of
from gw.media.user_urls import fault_of
from tests.support.rows import each

INSIDE = [
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "fc00::1",
    "fd12:3456::1",
    "::ffff:10.0.0.1",
    "::ffff:192.168.1.1",
    "2002:0a00:0001::1",  # 6to4 of 10.0.0.1
    "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "2001:db8::1",
    "::10.0.0.1",
    "::ffff:0:10.0.0.1",
    "fec0::1",
    "64:ff9b:1::808:808",
    "2001:0:4136:e378:8000:63bf:f7f7:f7f7",  # Teredo of 8.8.8.8
]
HERE = ["127.0.0.1", "127.255.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "::127.0.0.1"]
NEVER = [
    "169.254.169.254",
    "fe80::1",
    "fe80::1%eth0",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "::ffff:169.254.169.254",
    "no address",
    "",
]
OUTSIDE = ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]


@each("address", INSIDE + HERE + NEVER)
def test_a_channel_outside_leads_to_nothing_within(address: str) -> None:
    assert not allowing(["1.2.3.4"])(address)
    assert not allowing([])(address)


@each("address", OUTSIDE)
def test_everybody_may_lead_outside(address: str) -> None:
    for channel in ([], ["1.2.3.4"], ["10.0.0.7"], ["127.0.0.1"]):
        assert allowing(channel)(address)


@each("address", NEVER)
def test_nobody_leads_to_what_is_neither(address: str) -> None:
    for channel in ("10.0.0.7", "127.0.0.1", "fd00::7"):
        assert not allowing([channel])(address)


def test_a_channel_within_leads_to_its_own_kind() -> None:
    assert allowing(["10.0.0.7"])("192.168.1.1")
    assert not allowing(["10.0.0.7"])("127.0.0.1")
    assert allowing(["127.0.0.1"])("::1")
    assert not allowing(["127.0.0.1"])("10.0.0.7")
    assert allowing(["169.254.1.1"])("169.254.1.1")
    assert not allowing(["169.254.1.1"])("169.254.169.254")


@each("address", INSIDE + HERE + NEVER + OUTSIDE)
def test_links_of_clients_are_judged_by_the_same_table(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    assert (fault_of(f"https://{host}/") is None) == (scope_of(address) == "global")


def test_scopes_have_names() -> None:
    result = [scope_of(one) for one in ("1.1.1.1", "10.0.0.1", "::1", "fe80::1")]
    assert result == ["global", "private", "loopback", "other"]
