"""The decision which migrations are missing, without a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.store.queries import Migration, MigrationFault, pending, read

ONE = Migration(version=1, name="0001_one", sql="SELECT 1")
TWO = Migration(version=2, name="0002_two", sql="SELECT 2")


def as_applied(*migrations: Migration) -> list[tuple[int, str, str]]:
    return [(m.version, m.name, m.checksum) for m in migrations]


def test_empty_database_lacks_all() -> None:
    assert pending([ONE, TWO], []) == [ONE, TWO]


def test_applied_migrations_are_left_out() -> None:
    assert pending([ONE, TWO], as_applied(ONE)) == [TWO]
    assert pending([ONE, TWO], as_applied(ONE, TWO)) == []


def test_edited_migration_is_refused() -> None:
    edited = Migration(version=1, name="0001_one", sql="SELECT 1 -- better")
    with pytest.raises(MigrationFault, match="0001_one is not the file that was applied"):
        pending([edited, TWO], as_applied(ONE))


def test_database_of_before_the_first_release_is_told_what_to_do() -> None:
    earlier = [
        Migration(version=n, name=f"000{n}_earlier", sql=f"SELECT -{n}") for n in range(1, 13)
    ]
    with pytest.raises(MigrationFault, match=r"0001_one is not .* as 0001_earlier .* an empty one"):
        pending([ONE, TWO], as_applied(*earlier))


def test_newer_database_is_refused() -> None:
    with pytest.raises(MigrationFault, match="newer than this program: it has 0002_two"):
        pending([ONE], as_applied(ONE, TWO))


def test_folder_is_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "0002_b.sql").write_text("SELECT 2")
    (tmp_path / "0001_a.sql").write_text("SELECT 1")
    (tmp_path / "notes.md").write_text("not a migration")
    assert [m.name for m in read(tmp_path)] == ["0001_a", "0002_b"]


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["1_a.sql"], "not named like"),
        (["0001-a.sql"], "not named like"),
        (["0002_a.sql"], "where number 0001 should be"),
        (["0001_a.sql", "0001_b.sql"], "where number 0002 should be"),
        (["0001_a.sql", "0003_b.sql"], "where number 0002 should be"),
    ],
)
def test_badly_numbered_folder_is_refused(tmp_path: Path, names: list[str], fault: str) -> None:
    for name in names:
        (tmp_path / name).write_text("SELECT 1")
    with pytest.raises(MigrationFault, match=fault):
        read(tmp_path)
