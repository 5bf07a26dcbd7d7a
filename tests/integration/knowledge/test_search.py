"""Searches of knowledge bases on a real PostgreSQL: what is found, and in which order."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from actors.store.database import Database
from actors.store.session import Session
from gw.knowledge import importing
from gw.knowledge import search as searching
from gw.knowledge.bases import one_state
from gw.knowledge.importing import ImportTarget
from gw.knowledge.reading import read_page
from gw.knowledge.removal import remove_base, remove_page
from tests.integration.knowledge.importing import KB, bases_in

POSTINGS = """
SELECT substr(k.lexeme, strpos(k.lexeme, ':') + 1), k.pages, k.bits IS NOT NULL, ARRAY(
    SELECT p.id || ' ' || (e & 1048575)
    FROM unnest(k.entries) e JOIN kb_pages p ON p.base_no = k.base_no AND p.slot = e >> 20
    ORDER BY 1)
FROM kb_postings k WHERE k.base_no = %s ORDER BY 1
"""
# Whether entries are in order, and bits those of the entries.
IS_SOUND = """
SELECT bool_and(entries = ARRAY(SELECT e FROM unnest(entries) e ORDER BY e)
                AND coalesce(rtrim(bits::text, '0') = kb_bits(entries)::text, true)), count(bits)
FROM kb_postings
"""
OTTER = {
    "equal": "---\ntitle: Otter\n---\nnothing of it",
    "titled": "---\ntitle: The otter and its river\n---\nnothing of it",
    "alias": "---\naliases: [river otter of old]\n---\nnothing of it",
    "tag": "---\ntags: [otter]\n---\nnothing of it",
    "summary": "---\nsummary: of an otter\n---\nnothing of it",
    "fifty": "otter " * 50,
    "body": "a long walk with an otter beside the water of a lake in the rain",
}


async def test_a_better_field_goes_before_any_number_of_hits(
    database_url: str, tmp_path: Path
) -> None:
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(OTTER)
        order = ["equal", "titled", "alias", "tag", "summary", "fifty", "body"]
        assert await bases.ids("otters") == order
        found = await bases.search("otter")
        scores = [hit.score for hit in found.hits]
        assert scores == sorted(scores, reverse=True)
        assert scores[-1] > 0
        # Two terms go before one, wherever that one stands.
        assert (await bases.ids("otter lake zebra"))[0] == "body"


async def test_nearness_and_rarity_decide_where_frequency_does_not(
    database_url: str, tmp_path: Path
) -> None:
    filler = "one two three four five six seven eight nine ten "
    pages = {
        "a-far": f"river {filler * 4} stone",
        "b-near": f"river stone {filler * 4}",
        "c-common": f"heron {filler}",
        "d-rare": f"newt {filler}",
        **{f"heron{n}": f"a heron {filler}" for n in range(9)},
    }
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(pages)
        assert await bases.ids("river stone") == ["b-near", "a-far"]
        assert (await bases.ids("heron newt"))[0] == "d-rare"


async def test_a_page_is_read_by_its_name_in_any_normal_form(
    database_url: str, tmp_path: Path
) -> None:
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become({"cafe\u0301": "black"})
        base = await bases.base()
        async with one_state(bases.database) as session:
            for name in ("caf\u00e9", "cafe\u0301"):
                page = await read_page(session, base, name)
                assert page is not None
                assert page.id == "caf\u00e9"


@pytest.mark.parametrize(
    ("q", "ids"),
    [
        ("余额不足", ["zh"]),
        ("余额 检索", ["zh"]),
        ("検索エンジン", ["ja"]),
        ("けんさく", ["ja"]),
        ("검색", ["ko"]),
        ("GPT模型", ["mixed"]),
        ("gpt 模型", ["mixed"]),
        ("getUserName", ["code"]),
        ("username", []),
        ("user name", ["code"]),
        ("max_tokens", ["code", "words"]),
        ("MAX-TOKENS", ["code", "words"]),
        ("tokens max", ["code", "words"]),
        ("v1.2", ["code"]),
        ("🚀", ["emoji"]),
        ("👍🏽", ["emoji"]),
        ('"max tokens of"', ["words"]),
        ('"检索余额"', ["zh"]),
        ("CAFÉ", ["words"]),
        ("ｃａｆｅ", ["words"]),
    ],
)
async def test_languages_code_and_emoji(
    database_url: str, tmp_path: Path, q: str, ids: list[str]
) -> None:
    pages = {
        "zh": "网关的检索余额不足时返回错误",
        "ja": "全文検索エンジンの使い方。けんさく",
        "ko": "지식 검색 엔진",
        "mixed": "我们用GPT模型回答",
        "code": "`max_tokens` in getUserName since v1.2",
        "words": "the max tokens of a café",
        "emoji": "ship it 🚀 👍🏽",
    }
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(pages)
        assert sorted(await bases.ids(q)) == ids


@pytest.mark.parametrize(
    ("q", "ids"),
    [
        ("知识", ["inner", "wrapped"]),
        ("识库", ["inner"]),
        ("库检", ["inner"]),
        ("检索", ["inner", "wrapped"]),
        ("知识库检索", ["inner"]),
        ("全文检索", ["wrapped"]),
        ("段一", []),
        ("索知", []),
        ("鲸鱼", []),
    ],
)
async def test_two_characters_are_found_wherever_they_stand_together(
    database_url: str, tmp_path: Path, q: str, ids: list[str]
) -> None:
    pages = {
        "inner": "我们的知识库检索很快",
        # Lines of a paragraph are one text; two paragraphs are not.
        "wrapped": "这一页的知\n识可以用全文检  \n  索查到，第一段\n\n一天",
    }
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(pages)
        found = await bases.search(q)
        assert sorted(hit.id for hit in found.hits if found.match == "all") == ids
        assert all(f"**{q}**" in hit.snippet for hit in found.hits if hit.id in ids)
        if len(q) == 2:
            assert found.total == len(ids)


async def test_equal_pages_are_in_the_order_of_their_ids_over_windows_and_bases(
    database_url: str, tmp_path: Path
) -> None:
    ids = [f"p{n:03}" for n in range(120)]
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(dict.fromkeys(reversed(ids), "river stone"))
        await bases.become(dict.fromkeys(ids[:30], "river stone"), "other")
        seen = []
        for offset in range(0, 120, 37):
            window = await bases.search("river stone", offset=offset, limit=37)
            assert window.total == 120
            seen += [hit.id for hit in window.hits]
        assert seen == ids
        together = await bases.search("river", KB, "other")
        assert together.total == 150
        pairs = [(hit.id, hit.base.kb_id) for hit in together.hits[:4]]
        assert pairs == [("p000", KB), ("p000", "other"), ("p001", KB), ("p001", "other")]


async def test_what_is_weighed_is_always_what_is_there(database_url: str, tmp_path: Path) -> None:
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(OTTER)
        changed = {**OTTER, "body": "a newt instead", "new": "---\ntitle: A newt\n---\notter"}
        del changed["fifty"], changed["tag"]
        done = await bases.become(changed)
        assert (done.added, done.changed, done.removed) == (1, 1, 2)
        await bases.become(changed, "fresh")
        states = [
            await bases.database.fetch_all(POSTINGS, ((await bases.base(kb)).no,))
            for kb in (KB, "fresh")
        ]
        assert states[0] == states[1]
        assert all(pages == len(entries) for _, pages, _, entries in states[0])
        ((is_sound, with_bits),) = await bases.database.fetch_all(IS_SOUND)
        assert is_sound
        assert with_bits
        # The slots of pages that are gone are taken again.
        rows = await bases.database.fetch_all(
            "SELECT max(slot) FROM kb_pages GROUP BY base_no ORDER BY base_no"
        )
        assert rows == [(len(OTTER) - 1,), (len(changed) - 1,)]


async def test_a_word_on_few_of_many_pages_has_no_bits(database_url: str, tmp_path: Path) -> None:
    pages = {f"p{n:03}": "common" + " rare" * (n == 199) for n in range(200)}
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(pages)
        rows = await bases.database.fetch_all(
            "SELECT lexeme LIKE '%common', length(bits) FROM kb_postings"
            " WHERE lexeme LIKE '%common' OR lexeme LIKE '%rare'"
        )
        assert sorted(rows) == [(False, None), (True, 200)]
        assert await bases.ids("rare common") == ["p199"]
        pages["p199"] = "common"
        await bases.become(pages)
        assert (await bases.search("rare common")).total == 200


async def test_a_search_weighs_a_bounded_number_of_pages(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become({f"p{n:02}": "common usual" + " rare" * (n < 3) for n in range(40)})
        assert (await bases.search("common usual rare zebra")).total == 40
        monkeypatch.setattr(searching, "WEIGHED_PAGES_MAX", 3)
        assert (await bases.search("common usual rare zebra")).total == 3
        # Of one term all pages are weighed: there is nothing rarer to go by.
        assert (await bases.search("common")).total == 40
        # A phrase counts for more than a word, because pages are read for it.
        phrase = 'zebra rare "common usual"'
        monkeypatch.setattr(searching, "WEIGHED_PAGES_MAX", 41 * searching.PHRASE_COST)
        assert (await bases.search(phrase)).total == 40
        monkeypatch.setattr(searching, "WEIGHED_PAGES_MAX", 3)
        assert (await bases.search(phrase)).total == 3


async def test_a_base_is_removed_with_all_that_finds_it(database_url: str, tmp_path: Path) -> None:
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(OTTER)
        target = ImportTarget(account_id=bases.account_id, kb_id=KB)
        await remove_base(bases.database, target)
        for table in ("kb_postings", "kb_terms", "kb_names", "kb_pages"):
            rows = await bases.database.fetch_all(f"SELECT count(*) FROM {table}")
            assert rows == [(0,)], table


async def test_portions_of_an_import_come_to_what_the_whole_does(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {
        f"p{n}": f"---\ntitle: Page {n}\n---\n[[p{n + 1}]] [[p{n + 2}]] common w{n % 7} w{n}"
        for n in range(40)
    }
    changed = {f"p{n}": f"another common w{n % 5} [[p{n - 1}]]" for n in range(0, 40, 2)}
    last = {name: text for name, text in (pages | changed).items() if name not in ("p3", "p8")}
    links = "SELECT p.id, l.n, t.id FROM kb_links l JOIN kb_pages p ON p.no = l.page_no"
    links += " LEFT JOIN kb_pages t ON t.no = l.to_no WHERE l.base_no = %s ORDER BY 1, 2"
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(last, "whole")
        small = {"ROWS_MAX": 3, "NOTED_BYTES": 20, "NOTED_PAGES": 2, "ENTRIES_MAX": 50}
        for name, value in {**small, "BATCH_CHARACTERS": 50}.items():
            monkeypatch.setattr(importing, name, value)
        for step in (pages, pages | changed, last):
            await bases.become(step, "portions")
        ((sound, _),) = await bases.database.fetch_all(IS_SOUND)
        assert sound
        for found in (POSTINGS, links):
            whole, portions = [
                await bases.database.fetch_all(found, ((await bases.base(kb_id)).no,))
                for kb_id in ("whole", "portions")
            ]
            assert whole == portions
        account = bases.account_id
        await remove_page(bases.database, ImportTarget(account_id=account, kb_id="whole"), "p5")
        for kb_id in ("whole", "portions"):
            await remove_base(bases.database, ImportTarget(account_id=account, kb_id=kb_id))
        for table in ("kb_postings", "kb_changes", "kb_terms", "kb_links", "kb_pages"):
            assert await bases.database.fetch_all(f"SELECT FROM {table}") == []


async def test_an_import_reads_lists_by_their_lexemes_whatever_statistics_say(
    database_url: str, tmp_path: Path
) -> None:
    words = 2000
    async with bases_in(database_url, tmp_path) as bases:
        await bases.database.execute("ANALYZE")  # of empty tables
        read = """SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
            FROM pg_stat_xact_user_tables WHERE relname = ANY (%s) ORDER BY 1 DESC LIMIT 1"""
        counted: list[int] = []
        for text in ("w", "v"):
            async with bases.database.transaction() as session:
                within = replace(bases, database=cast(Database, _Within(session)))
                await within.become({"long": " ".join(f"[[{text}{n}]]" for n in range(words))})
                tables = ["kb_postings", "kb_links", "kb_changes", "kb_names", "kb_pages"]
                ((rows,),) = await session.fetch_all(read, (tables,))
                counted.append(rows)
        assert max(counted) < 20 * words


class _Within:
    """A transaction under way, in place of a database."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        yield self._session
