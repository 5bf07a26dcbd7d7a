"""Where webhooks may be sent to: what is refused by its text, and which addresses are allowed."""

from actors.webhooks.targets import Targets
from tests.support.rows import each

NOTHING = Targets.of([])
SOME = Targets.of(["10.1.0.0/16", "127.0.0.1", "fd00::/8", "hooks.internal", "Localhost"])


@each(
    "url",
    [
        "https://example.com/hook",
        "https://example.com:8443/hook?key=a%20b",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
        # A name is looked up when something is sent.
        "https://localhost/",
        "https://hooks.internal/",
        "HTTPS://EXAMPLE.COM",
    ],
)
def test_what_is_public_over_tls_is_good(url: str) -> None:
    assert NOTHING.fault_of(url) is None


@each(
    "url",
    [
        "",
        "example.com",
        "http://example.com/",
        "ftp://example.com/",
        "https://",
        "https:///hook",
        "https://user@example.com/",
        "https://user:word@example.com/",
        "https://exa mple.com/",
        "https://example.com/\n",
        "https://example.com\\@evil.example/",
        "https://exämple.com/",
        "https://example.com/#part",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://" + "a" * 2050,
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest",
        "https://0x7f.1/",
        "https://2130706433/",
        "https://0177.0.0.1/",
        "https://1.2.3.4.5/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[64:ff9b::a00:1]/",
        "https://[fe80::1%25eth0]/",
        "https://[nonsense]/",
    ],
)
def test_what_is_not_is_refused_with_a_reason(url: str) -> None:
    assert NOTHING.fault_of(url)


@each(
    "url, is_good",
    [
        ("http://10.1.2.3/", True),
        ("https://10.1.2.3/", True),
        ("https://10.2.2.3/", False),
        ("http://127.0.0.1:8080/", True),
        ("http://[fd12::1]/", True),
        ("http://hooks.internal/", True),
        ("http://HOOKS.internal./", True),
        ("http://localhost:8000/", True),
        # Without TLS a name leads into an allowed network, or nowhere.
        ("http://example.com/", True),
        ("http://8.8.8.8/", False),
        ("http://user@hooks.internal/", False),
    ],
)
def test_allowed_networks_and_names_lift_both(url: str, is_good: bool) -> None:
    assert (SOME.fault_of(url) is None) is is_good


@each(
    "url, address, is_good",
    [
        ("https://example.com/", "8.8.8.8", True),
        ("https://example.com/", "10.1.2.3", True),
        ("https://example.com/", "10.2.2.3", False),
        ("https://example.com/", "::ffff:10.1.2.3", True),
        ("https://example.com/", "169.254.169.254", False),
        ("https://example.com/", "fe80::1%eth0", False),
        ("http://example.com/", "10.1.2.3", True),
        ("http://example.com/", "8.8.8.8", False),
        ("http://hooks.internal/", "192.168.0.1", True),
        ("https://sub.hooks.internal/", "192.168.0.1", False),
    ],
)
def test_addresses_are_judged_when_they_are_looked_up(
    url: str, address: str, is_good: bool
) -> None:
    assert SOME.allowing(url)(address) is is_good
