"""The store without a server: its files and addresses, and parts of the embedded PostgreSQL."""

from pathlib import Path

import pytest

from actors.store.schema import Migration, MigrationFault, Schema, read

ONE = Migration(version=1, name="0001_one", sql="SELECT 1")
TWO = Migration(version=2, name="0002_two", sql="SELECT 2")


def as_applied(*migrations: Migration) -> list[tuple[int, str, str]]:
    return [(m.version, m.name, m.checksum) for m in migrations]


def schema(*migrations: Migration) -> Schema:
    return Schema(migrations=migrations, functions=[])


def test_empty_database_lacks_all() -> None:
    assert schema(ONE, TWO).missing([]) == [ONE, TWO]


def test_applied_migrations_are_left_out() -> None:
    assert schema(ONE, TWO).missing(as_applied(ONE)) == [TWO]
    assert schema(ONE, TWO).missing(as_applied(ONE, TWO)) == []


def test_edited_file_is_refused() -> None:
    edited = Migration(version=1, name="0001_one", sql="SELECT 1 -- better")
    with pytest.raises(MigrationFault, match="0001_one is not the file that was applied"):
        schema(edited, TWO).missing(as_applied(ONE))


def test_database_of_no_release_is_refused_with_what_to_do() -> None:
    for before in (
        Migration(version=25, name="tables", sql="SELECT 3"),
        Migration(version=1, name="0001_earlier", sql="SELECT 3"),
    ):
        with pytest.raises(MigrationFault, match=rf"{before.name}.*start with an empty one"):
            read().missing(as_applied(before))


def test_newer_database_is_refused() -> None:
    with pytest.raises(MigrationFault, match="newer than this program: it has 0002_two"):
        schema(ONE).missing(as_applied(ONE, TWO))


def test_folder_is_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0003_b.sql").write_text("SELECT 2")
    (folder / "0002_a.sql").write_text("SELECT 1")
    (folder / "notes.md").write_text("not a migration")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/1_first.sql").write_text("SELECT 0")
    assert [m.name for m in read(tmp_path).migrations] == ["tables", "0002_a", "0003_b"]


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["1_a.sql"], "not named like"),
        (["0001-a.sql"], "not named like"),
        (["0001_a.sql", "0001_b.sql"], "where number 0002 should be"),
        (["0001_a.sql", "0003_b.sql"], "where number 0002 should be"),
        (["0002_a.sql"], "where number 0001 should be"),
    ],
)
def test_badly_numbered_folder_is_refused(tmp_path: Path, names: list[str], fault: str) -> None:
    (tmp_path / "migrations").mkdir()
    for name in names:
        (tmp_path / "migrations" / name).write_text("SELECT 1")
    with pytest.raises(MigrationFault, match=fault):
        read(tmp_path)


def test_each_function_has_a_file_of_its_name() -> None:
    wrong = [
        each.name
        for each in read().functions
        if each.sql.count("CREATE OR REPLACE FUNCTION ") != 1
        or f"CREATE OR REPLACE FUNCTION {each.name}(" not in each.sql
    ]
    assert not wrong
