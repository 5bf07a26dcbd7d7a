"""Which links a client may name: every spelling of a place that is not public is refused."""

from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from channels.named_host import URL_CHARACTERS_MAX
from gw.media.user_urls import fault_of, is_embedded_image
from tests.support.rows import each

SPECIAL = [
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "255.255.255.255",
    "224.0.0.1",
    "240.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
]


def spellings(address: IPv4Address) -> list[str]:
    value = int(address)
    octets = list(address.packed)
    return [
        str(address),
        str(value),
        hex(value),
        f"0{value:o}",
        ".".join(hex(octet) for octet in octets),
        ".".join(f"0{octet:o}" for octet in octets),
        f"{octets[0]}.{value & 0xFFFFFF}",
        f"{octets[0]}.{octets[1]}.{value & 0xFFFF}",
        f"[::ffff:{address}]",
        f"[::{address}]",
        f"[{IPv6Address(0xFFFF << 32 | value)}]",
        f"[64:ff9b::{address}]",
        f"[{IPv6Address(0x2002 << 112 | value << 80)}]",
    ]


REFUSED_HOSTS = [
    # names
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "printer.local",
    "Printer.LOCAL.",
    "metadata.google.internal",
    "local",
    "internal",
    "localhost.localdomain",
    "localhost6.localdomain6",
    "ip6-localhost",
    "IP6-Loopback.",
    "printer.home.arpa",
    "ｌｏｃａｌｈｏｓｔ",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "ſ.local",
    "printer。local",
    "printer｡local",
    "xn--localhost-",
    "xn--pple-43d-\N{SOFT HYPHEN}",
    "xn--",
    "xn--a\u0000",
    # IPv4, each in every spelling that is a number
    *(spelling for address in SPECIAL for spelling in spellings(IPv4Address(address))),
    "127.0.0.1.",
    # in other ways
    "0X7F000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "0x",
    "0x.0x.0x.0x",
    "10.0x1",
    "0300.0250.1.1",
    "010.0.0.1",
    "0010.0.0.1",
    "0000000000127.0.0.1",
    "１２７.０.０.１",
    "127。0。0。1",
    "①②⑦.⓪.⓪.①",
    "𝟏𝟐𝟕.𝟎.𝟎.𝟏",
    # numbers that are no address
    "256.0.0.1",
    "1.2.3.4.5",
    "127.0.0.08",
    "4294967296",
    "example.1",
    "example.0x7f",
    "1..2",
    # percent signs, which some decode
    "127%2e0.0.1",
    "%6cocalhost",
    "%31%32%37.0.0.1",
    "[::1%25eth0]",
    "[fe80::1%eth0]",
    # IPv6
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::FFFF:7f00:1]",
    "[::ffff:0:10.0.0.1]",
    "[64:ff9b:1::1]",
    "[2002:c0a8:101::1]",
    "[2001:0:53aa:64c:0:0:80ff:fffe]",
    "[fe80::1]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd12:3456::1]",
    "[ff02::1]",
    "[2001:db8::1]",
    "[100::1]",
    "[::ffff:127.0.0.01]",
    "[127.0.0.1]",
    "[v1.fe80::1]",
    "[::1",
    "[]",
    "::1",
    # no host at all
    "",
    ".",
    "..",
    ".example.com",
    "a..example.com",
    "-a.example.com",
    "a-.example.com",
    "exa mple.com",
    "exa<mple.com",
    "exa\N{SOFT HYPHEN}mple.com",
    "exa\N{ZERO WIDTH JOINER}mple.com",
    "a" * 64 + ".example.com",
    "a." * 127 + "example.com",
    "example.com:0",
    "example.com:65536",
    "example.com:８０",
    "example.com:80:80",
    "example.com:port",
    "example.com:-1",
    "[2606:4700::1111]80",
    # users
    "user@example.com",
    "user:password@example.com",
    "@example.com",
    ":@example.com",
    "example.com@127.0.0.1",
]

REFUSED_URLS = [
    "",
    "example.com/a.png",
    "//example.com/a.png",
    "http:example.com",
    "http:/example.com",
    "http:///example.com",
    "https:\\\\example.com",
    "http://example.com\\@127.0.0.1/",
    "http://127.0.0.1\\.example.com",
    "http://\\127.0.0.1",
    " http://example.com",
    "http://example.com/ a",
    "http://exam\tple.com",
    "http://example.com/\n",
    "http://example.com/\x00",
    "http://example.com/\x7f",
    "http://example.com/\u2028",
    "ftp://example.com/a.png",
    "file:///etc/passwd",
    "data:image/png;base64,AAAA",
    "javascript:alert(1)",
    "gopher://example.com",
    "blob:https://example.com/1",
    "asset://1",
    "ws://example.com",
    "httpx://example.com",
    "h\u0442tp://example.com",
    "view-source:http://example.com",
    "https://example.com/" + "a" * URL_CHARACTERS_MAX,
    "http://?a",
    "http://#a",
]

TAKEN = [
    "http://example.com",
    "HTTPS://Example.COM/A.png",
    "https://example.com:8443/a.png?x=1&y=2#z",
    "https://example.com:/a",
    "https://example.com.",
    "https://cdn_1.example.com/a",
    "https://example.com/文件.png",
    "https://example.com/a%20b.png",
    "https://example.com/?next=http://127.0.0.1/&user=a@b",
    "https://example.com#@127.0.0.1",
    "https://8.8.8.8/a.png",
    "http://134744072/",
    "http://[2606:4700::1111]/",
    "http://[::ffff:8.8.8.8]:80/",
    "http://[64:ff9b::808:808]",
    "https://müller.example/a",
    "https://例え.テスト/a",
    "https://xn--mller-kva.example/a",
    "https://xn--p1ai.xn--p1ai/",
    "https://localhost.example.com",
    "https://mylocal/",
    "https://127.0.0.1.example.com/",
    "https://1.2.3.4x/",
    "https://example.internal.com/",
    "https://example.com/" + "a" * (URL_CHARACTERS_MAX - 20),
]


def test_there_are_enough_spellings() -> None:
    assert len(set(REFUSED_HOSTS)) + len(set(REFUSED_URLS)) > 150


@each("scheme", ["http", "https"])
@each("host", REFUSED_HOSTS)
def test_host_that_is_refused(host: str, scheme: str) -> None:
    assert fault_of(f"{scheme}://{host}/a.png")
    assert fault_of(f"{scheme}://{host}")


@each("host", [host for host in REFUSED_HOSTS if ":" not in host])
def test_port_does_not_save_a_host(host: str) -> None:
    assert fault_of(f"https://{host}:8080/?a#b")


@each("url", REFUSED_URLS)
def test_url_that_is_refused(url: str) -> None:
    assert fault_of(url)


@each("url", TAKEN)
def test_url_that_is_taken(url: str) -> None:
    assert fault_of(url) is None


@given(st.ip_addresses(v=4))
def test_address_that_is_not_public_is_refused_in_every_spelling(address: IPv4Address) -> None:
    if address.is_global and not address.is_multicast and not address.is_reserved:
        assert fault_of(f"https://{address}/") is None
        return
    for spelling in spellings(address):
        assert fault_of(f"https://{spelling}/"), spelling


@given(st.text(max_size=60))
def test_any_text_is_judged(text: str) -> None:
    for url in (text, f"http://{text}", f"https://[{text}]/", f"https://xn--{text}/"):
        fault_of(url)


def test_images_that_are_their_own_links() -> None:
    assert is_embedded_image("data:image/png;base64,AAAA")
    assert is_embedded_image("DATA:image/svg+xml;charset=utf-8;base64,AA")
    others = ("data:text/html,<b>", "data:,x", "data:image/png", "https://a", "data:image/png,é")
    assert not any(map(is_embedded_image, others))
