"""What the server keeps of the embedded database's password."""

import base64

from actors.store.embedded.access import scram_verifier


def test_verifier_is_the_one_of_the_rfc() -> None:
    """The keys behind the example of RFC 7677 (user, pencil)."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    assert scram_verifier("pencil", iterations=4096, salt=salt) == (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ=="
        "$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
        ":wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )


def test_salt_is_another_each_time() -> None:
    assert scram_verifier("same") != scram_verifier("same")
