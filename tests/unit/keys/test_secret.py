"""The secret of a gateway, and what it seals and hashes."""

from pathlib import Path

import pytest

from gw.keys.hashing import KeyHasher
from gw.keys.sealing import KeySealer, WrongSecret
from gw.keys.secret import Secret, load_secret
from tests.support.rows import cases

SECRET = Secret("correct horse")
KEY = "sk-platform-" + "5a" * 32


def test_lookup_hash_stays_what_it_was() -> None:
    """Stored keys are found by it: a change here would lock every client out."""
    known = "2d81bd75e8a263e105ca4bba7de9f35ba189cdae3999a2d0b30c57b9194c6b9d"
    assert KeyHasher(SECRET).lookup_hash(KEY).hex() == known


def test_sealed_key_is_unsealed_and_never_looks_the_same() -> None:
    sealer = KeySealer(SECRET)
    first, second = (sealer.seal(KEY, key_id="key_1") for _ in range(2))
    assert first != second
    assert KEY.encode() not in first
    assert sealer.unseal(first, key_id="key_1") == sealer.unseal(second, key_id="key_1") == KEY


def test_key_sealed_before_can_still_be_unsealed() -> None:
    sealed = bytes.fromhex(
        "014c92b3df1b0a7714491e77df9ac82ff44c730eb229a8f1c5e03858eaf11c82ea961f3b1e9545d6"
        "ec921ac363c801fdc01a87d0636e090810b96c6dc443bcf924e6961c236e6455c58136427795b2ae"
        "14452d789f4c325a44ebf3d019981bcdc73d5c9c3a8e8e8399"
    )
    assert KeySealer(SECRET).unseal(sealed, key_id="key_1") == KEY


@cases(
    "sealed",
    b"",
    b"\x01",
    b"\x01" + bytes(11),
    b"\x01" + bytes(12),
    b"\x01" + bytes(60),
    b"\x02" * 80,
)
def test_what_was_not_sealed_is_refused(sealed: bytes) -> None:
    with pytest.raises(WrongSecret):
        KeySealer(SECRET).unseal(sealed, key_id="key_1")


def test_other_secret_other_row_and_changed_bytes_are_refused() -> None:
    sealed = KeySealer(SECRET).seal(KEY, key_id="key_1")
    with pytest.raises(WrongSecret, match="another secret"):
        KeySealer(Secret("other")).unseal(sealed, key_id="key_1")
    with pytest.raises(WrongSecret):
        KeySealer(SECRET).unseal(sealed, key_id="key_2")
    for place in (0, 1, 13, -1):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(WrongSecret):
            KeySealer(SECRET).unseal(bytes(changed), key_id="key_1")


def test_configured_secret_goes_before_the_file(tmp_path: Path) -> None:
    assert load_secret("configured", tmp_path).text == "configured"
    assert list(tmp_path.iterdir()) == []
    made = load_secret("", tmp_path)
    assert load_secret("", tmp_path) == made
    assert load_secret("configured", tmp_path).text == "configured"


def test_previous_secret_opens_and_finds_what_was_made_under_it() -> None:
    old, both = Secret("old horse"), Secret("new horse", previous="old horse")
    sealed = KeySealer(old).seal(KEY, key_id="key_1")
    sealer = KeySealer(both)
    assert sealer.unseal(sealed, key_id="key_1") == KEY
    assert sealer.unseal_dated(sealed, key_id="key_1") == (KEY, False)
    anew = sealer.seal(KEY, key_id="key_1")
    assert sealer.unseal_dated(anew, key_id="key_1") == (KEY, True)
    assert KeySealer(Secret("new horse")).unseal(anew, key_id="key_1") == KEY
    with pytest.raises(WrongSecret):
        KeySealer(old).unseal(anew, key_id="key_1")
    hasher = KeyHasher(both)
    assert hasher.previous_hash(KEY) == KeyHasher(old).lookup_hash(KEY)
    assert hasher.lookup_hash(KEY) == KeyHasher(Secret("new horse")).lookup_hash(KEY)
    assert KeyHasher(old).previous_hash(KEY) is None
    assert both.subkeys("a use") == (both.subkey("a use"), old.subkey("a use"))
    assert "horse" not in repr(both)
