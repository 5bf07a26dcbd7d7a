"""`gw kb` on a real PostgreSQL: import, list, show, export, remove, grant, revoke."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gw.cli import kb
from gw.knowledge.folder import Folder, read_folder
from tests.integration.cli.command import Gw

OTTERS = """\
---
title: Otters
summary: Who they are
tags: [animals, rivers]
aliases: River Dog
confidence: 0.9
needs_review: true
source: {file: ../docs/otters.pdf, locator: p. 4, compiled_at: 2026-01-02, model: m}
---
They hold hands. See [[Beavers|builders]], [[RIVER dog]], `[[Code]]` and [[Nobody#part]].
"""
FILES = {
    "a/Otters.md": OTTERS,
    "a/Beavers.md": "# Beavers #\nThey build dams, unlike [[Otters]].\n",
    ".hidden.md": "no page",
    "docs/otters.pdf": "%PDF otters",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder


def counts(done: dict[str, Any]) -> tuple[int, ...]:
    names = ("pages", "added", "changed", "unchanged", "removed", "sources")
    return tuple(done[name] for name in names)


def stored(tmp_path: Path) -> list[str]:
    """The names of the source files that are kept."""
    return sorted(path.name for path in (tmp_path / "var" / "kb").rglob("*") if path.is_file())


def test_a_base_becomes_its_folder(gw: Gw, account: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "pages", FILES)
    into = ("kb", "import", "--account", account, "--kb", "zoo", "--name", "The zoo", str(folder))
    first = gw.run_json(*into)
    assert counts(first) == (2, 2, 0, 0, 0, 1)
    assert (first["account_id"], first["kb_id"], first["user"]) == (account, "zoo", None)
    assert first["warnings"] == []
    assert stored(tmp_path) == ["otters.pdf"]
    shown = gw.run_json("kb", "show", "--account", account, "--kb", "zoo")
    assert shown["unresolved"] == [{"id": "Otters", "target": "Nobody"}]
    assert (shown["name"], shown["pages"], shown["sources"]) == ("The zoo", 2, 1)
    assert counts(gw.run_json(*into)) == (2, 0, 0, 2, 0, 1)
    again = gw.run_json("kb", "list", "--account", account)["kbs"]
    assert [one["updated_at"] for one in again] == [shown["updated_at"]]

    (folder / "a/Otters.md").unlink()
    write(folder, {"b/New.md": "x", "a/Beavers.md": "other"})
    assert counts(gw.run_json(*into, "--keep")) == (3, 1, 1, 0, 0, 1)
    assert counts(gw.run_json(*into)) == (2, 0, 0, 2, 1, 0)
    assert stored(tmp_path) == []


def test_an_export_imports_again_to_the_same(gw: Gw, account: str, tmp_path: Path) -> None:
    page = FILES["a/Otters.md"].replace("\n", "\r\n").replace("---", "\ufeff---", 1)
    more = {"a/Otters.md": page, "self.md": "---\r\nsource: self.md\r\n---\r\nmine\r\n"}
    folder = write(tmp_path / "pages", {**FILES, **more})
    gw.run_json("kb", "import", "--account", account, "--user", "ann@x", str(folder))
    out = tmp_path / "out" / "new"
    of_ann = ("--account", account, "--user", "ann@x")
    assert gw.run_json("kb", "export", *of_ann, str(out))["pages"] == 3
    assert (out / "docs/otters.pdf").read_text() == "%PDF otters"
    assert b"\r\n" in (out / "self.md").read_bytes()  # as a source it is what it was
    assert b"\r" not in (out / "a/Otters.md").read_bytes()
    assert counts(gw.run_json("kb", "import", *of_ann, str(out))) == (3, 0, 0, 3, 0, 2)
    assert gw.refuses("kb", "export", *of_ann, str(out))[0] == "export_refused"


def test_every_fault_is_named_and_nothing_changes(gw: Gw, account: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "pages", FILES)
    into = ("kb", "import", "--account", account, str(folder))
    gw.run_json(*into)
    (tmp_path / "outside.pdf").write_text("x")
    os.symlink(tmp_path / "outside.pdf", folder / "link.pdf")
    write(
        folder,
        {
            "b/Otters.md": "again",
            "c/open.md": "---\ntitle: x\n",
            "c/list.md": "---\n- a\n---\n",
            "c/twice.md": "---\ntags: a\ntags: b\n---\n",
            "c/type.md": "---\ntitle: [x]\ntags: [1]\nneeds_review: 'no'\nsource: 4\n---\n",
            "c/yaml.md": "---\ntitle: 'x\n---\n",
            "c/a,b.md": "x",
            "c/out.md": "---\nsource: ../../outside.pdf\n---\n",
            "c/linked.md": "---\nsource:\n  file: ../link.pdf\n---\n",
            "c/gone.md": "---\nsource: nothing.pdf\n---\n",
            "c/nul.md": "one\ntwo \0\n",
            "c/long.md": "x" * (1024 * 1024 + 1),
        },
    )
    (folder / "c/bytes.md").write_bytes(b"one\n\xff")
    message = gw.run(*into)
    assert (message.exit_code, message.out) == (2, "")
    lines = message.err.splitlines()
    starts = [line.split(": ")[0] for line in lines]
    assert starts == [
        "b/Otters.md:1",
        "c/a,b.md:1",
        "c/bytes.md:2",
        "c/gone.md:2",
        "c/linked.md:3",
        "c/list.md:2",
        "c/long.md:1",
        "c/nul.md:2",
        "c/open.md:1",
        "c/out.md:2",
        "c/twice.md:3",
        "c/type.md:2",
        "c/type.md:3",
        "c/type.md:4",
        "c/type.md:5",
        "c/yaml.md:2",
    ]
    assert "a/Otters.md and b/Otters.md" in lines[0]
    assert gw.run_json("kb", "show", "--account", account)["pages"] == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    message = gw.run("kb", "import", "--account", account, str(empty))
    assert message.exit_code == 2
    assert message.err.startswith(".:1: ")


def test_what_the_disk_refuses_is_named_by_file(
    gw: Gw, account: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "pages", FILES)
    into = ("kb", "import", "--account", account, str(folder))
    gw.run_json(*into)
    (folder / "folder.md").mkdir()
    os.symlink("loop.md", folder / "loop.md")
    os.symlink("nowhere", folder / "lost.md")
    os.mkfifo(folder / "pipe.md")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md")).touch()
    write(folder, {"c/loop.md": "---\nsource: ../loop.md\n---\n", "locked/x.md": "x"})
    scandir = os.scandir

    def locked(path: str) -> Any:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", locked)
    message = gw.run(*into)
    assert (message.exit_code, message.out) == (2, "")
    assert message.err.splitlines() == [
        "'\\udcff.md':1: the file's name is not UTF-8",
        "c/loop.md:2: the source ../loop.md is a link that leads back to itself",
        "folder.md:1: is a folder, and no page",
        "locked:1: cannot be read: Permission denied",
        "loop.md:1: is a link that leads back to itself",
        "lost.md:1: cannot be read: No such file or directory",
        "pipe.md:1: is no file",
    ]
    message = gw.run("kb", "import", "--account", account, str(folder / "a/Beavers.md/x"))
    assert (message.exit_code, message.out) == (2, "")
    assert "a/Beavers.md/x cannot be read: Not a directory" in message.err


def test_a_source_that_cannot_be_kept_changes_nothing(
    gw: Gw, account: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "pages", FILES)
    into = ("kb", "import", "--account", account, str(folder))
    store = tmp_path / "var" / "kb"
    store.parent.mkdir(exist_ok=True)
    store.write_text("no folder")
    message = gw.run(*into)
    assert (message.exit_code, message.out) == (1, "")
    assert message.err.startswith(f"error: {store}/")
    assert message.err.endswith(": Not a directory\n")
    store.unlink()

    def read_and_lose(root: Path, *, source_mb_max: int) -> Folder:
        found = read_folder(root, source_mb_max=source_mb_max)
        (root / "docs/otters.pdf").unlink()
        return found

    monkeypatch.setattr(kb, "read_folder", read_and_lose)
    message = gw.run(*into)
    assert (message.exit_code, message.out) == (2, "")
    fault = "a/Otters.md:8: the source ../docs/otters.pdf cannot be read: No such file or directory"
    assert message.err.splitlines() == [fault]
    assert gw.run_json("kb", "show", "--account", account)["pages"] == 0


def test_an_export_that_the_disk_refuses_says_where(gw: Gw, account: str, tmp_path: Path) -> None:
    gw.run_json("kb", "import", "--account", account, str(write(tmp_path / "pages", FILES)))
    taken = tmp_path / "taken"
    taken.write_text("a file")
    message = gw.run("kb", "export", "--account", account, str(taken))
    assert (message.exit_code, message.err) == (1, f"error: {taken}: File exists\n")
    shutil.rmtree(tmp_path / "var" / "kb")
    message = gw.run("kb", "export", "--account", account, str(tmp_path / "out"))
    assert (message.exit_code, message.out) == (1, "")
    assert message.err.endswith("otters.pdf: No such file or directory\n")


def test_a_linked_folder_is_reported(gw: Gw, account: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "pages", FILES)
    os.symlink("a", folder / "b")
    done = gw.run_json("kb", "import", "--account", account, str(folder))
    assert done["pages"] == 2
    assert done["warnings"] == ["b:1: a link to a folder, in which no pages are looked for"]


def test_what_is_done_is_logged_in_ids_and_counts(gw: Gw, account: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "pages", FILES)
    of = ("--account", account, "--kb", "zoo")
    about = {"logger": "gw.kb", "level": "info", "account": account, "kb": "zoo"}
    counted = {"pages": 2, "added": 2, "changed": 0, "removed": 0}
    assert gw.logs("kb", "import", *of, str(folder)) == [
        {"action": "kb.imported", **about, **counted}
    ]
    assert gw.logs("kb", "grant", *of, "--to-user", "ann") == [{"action": "kb.granted", **about}]
    assert gw.logs("kb", "show", *of) == []
    assert gw.logs("kb", "remove", *of) == [{"action": "kb.removed", **about}]


def test_warnings_name_their_places(gw: Gw, account: str, tmp_path: Path) -> None:
    one = "---\ncolour: red\naliases: [Both]\n---\n"
    folder = write(tmp_path / "pages", {"a.md": one, "b.md": "---\naliases: both\n---\n"})
    done = gw.run_json("kb", "import", "--account", account, str(folder))
    assert [text.split(": ")[0] for text in done["warnings"]] == ["a.md:2", "b.md:1"]


def test_a_page_and_a_base_are_removed(gw: Gw, account: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "pages", FILES)
    gw.run_json("kb", "import", "--account", account, "--kb", "zoo", str(folder))
    of = ("--account", account, "--kb", "zoo")
    assert gw.refuses("kb", "remove", *of, "--page", "otters")[0] == "page_not_found"
    # By an alias, which has no case; the answer has the page's own id.
    assert gw.run_json("kb", "remove", *of, "--page", "river DOG")["page"] == "Otters"
    assert stored(tmp_path) == []
    shown = gw.run_json("kb", "show", *of)
    assert (shown["pages"], shown["unresolved"]) == (1, [{"id": "Beavers", "target": "Otters"}])
    gw.run_json("kb", "remove", *of)
    assert gw.refuses("kb", "show", *of)[0] == "kb_not_found"


def test_grants_are_listed_and_taken_back(gw: Gw, account: str, tmp_path: Path) -> None:
    other: str = gw.run_json("account", "create", "Bob")["id"]
    folder = write(tmp_path / "pages", FILES)
    of = ("--account", account, "--kb", "zoo")
    gw.run_json("kb", "import", *of, "--restricted", str(folder))
    gw.run_json("kb", "grant", *of, "--to-user", "ann")
    gw.run_json("kb", "grant", *of, "--to-user", "ann")
    shown = gw.run_json("kb", "grant", *of, "--to-account", other)
    assert (shown["restricted"], shown["granted_to"]) == (True, ["user ann", f"account {other}"])
    # Another import of the same base does not open it by forgetting the word.
    gw.run_json("kb", "import", *of, str(folder))
    assert gw.run_json("kb", "revoke", *of, "--to-user", "ann")["restricted"] is True
    assert gw.refuses("kb", "revoke", *of, "--to-user", "ann")[0] == "grant_not_found"
    assert gw.refuses("kb", "grant", *of, "--to-account", "acct_no")[0] == "account_not_found"


@pytest.mark.parametrize(
    "options", [("--kb", "Zoo"), ("--kb", "default"), ("--kb", "a", "--user", "b"), ("--user", "?")]
)
def test_options_that_cannot_be(
    gw: Gw, account: str, tmp_path: Path, options: tuple[str, ...]
) -> None:
    folder = write(tmp_path / "pages", FILES)
    message = gw.run("kb", "import", "--account", account, *options, str(folder))
    assert message.exit_code == 2


def test_nobodys_account_and_a_users_key(gw: Gw, account: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "pages", FILES)
    code, _ = gw.refuses("kb", "import", "--account", "acct_no", str(folder))
    assert code == "account_not_found"
    of = ("key", "create", "--account", account, "--name", "n")
    assert gw.run_json(*of)["user"] == "owner"
    key = gw.run_json(*of, "--user", "ann@x.example")
    assert gw.run_json("key", "list", "--account", account)["keys"][1]["user"] == key["user"]
