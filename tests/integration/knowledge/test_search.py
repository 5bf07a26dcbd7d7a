"""Knowledge bases on a real PostgreSQL: search, ranking, relevance."""

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any, cast

import pytest

from actors.store.database import Database
from actors.store.session import Session
from gw.knowledge import importing
from gw.knowledge import search as searching
from gw.knowledge.bases import SQL
from gw.knowledge.importing import ImportTarget
from gw.knowledge.query import parse_query
from gw.knowledge.removal import remove_base, remove_page
from gw.knowledge.search import asked
from gw.knowledge.words import folded_name
from loadtests.knowledge.relevance import DEPTH, OURS, RIVALS, judged, measure, pages, table
from tests.integration.knowledge.importing import KB, Bases, bases_in

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


# --- The windows of a search are those of an order in which every page is weighed ---

ENTRIES = """
SELECT p.base_no, substr(k.lexeme, strpos(k.lexeme, ':') + 1), p.id, p.no, e >> 16 & 15, e & 65535
FROM kb_postings k CROSS JOIN unnest(k.entries) e
JOIN kb_pages p ON p.base_no = k.base_no AND p.slot = e >> 20
"""
WORDS = [f"{a}{b}" for a in ("ba", "do", "ki", "lum", "nor", "pez", "sa", "tur") for b in "gkmvxz"]
Row = tuple[int, int, int]  # base, page, key


class EveryPage:
    """Weighs each page that has a term, by the lists of all lexemes."""

    def __init__(self, rows: Iterable[tuple[Any, ...]], ranked_pages: int) -> None:
        self.lists: dict[str, list[tuple[Any, ...]]] = {}
        self.pages = ranked_pages
        for base_no, lexeme, *entry in rows:
            self.lists.setdefault(lexeme, []).append((base_no, *entry))

    def rank(self, text: str, *, every: bool) -> list[Row]:
        """All pages that are found, best first."""
        found: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
        lexemes = [term.sequences[0][0][1] for term in parse_query(text).every]
        for lexeme in lexemes:
            entries = self.lists.get(lexeme, [])
            rarity = round(256 * log(1 + self.pages / max(1, len(entries))))
            for base_no, page_id, no, field, weight in entries:
                found.setdefault((base_no, no), []).append((page_id, field, weight * rarity))
        placed = []
        for (base_no, no), hits in found.items():
            if every and len(hits) < len(lexemes):
                continue
            key = len(hits) << 50 | (15 - min(field for _, field, _ in hits)) << 44
            key |= (hits[0][0] == folded_name(text)) << 49
            placed.append((-(key + sum(weight for *_, weight in hits)), hits[0][0], base_no, no))
        return [(base_no, no, -key) for key, _, base_no, no in sorted(placed)]


def ranked_pages(chance: random.Random, ids: Iterable[int]) -> dict[str, str]:
    """Pages of words of which the first are on nearly all and the last on few."""
    weights = [1 / (n + 1) for n in range(len(WORDS))]
    made = {}
    for number in ids:
        title = " ".join(chance.choices(WORDS, k=2))
        body = " ".join(chance.choices(WORDS, weights, k=chance.randint(3, 60)))
        made[f"{WORDS[number % len(WORDS)]}{'' if number < len(WORDS) else number}"] = (
            f"---\ntitle: the {title}\n---\n{body}"
        )
    return made


async def ranked(bases: Bases, nos: list[int], text: str, **window: Any) -> list[tuple[Any, ...]]:
    """What the database says without nearness, and where nothing is near."""
    params = {"bases": nos, "name": folded_name(text), **asked(parse_query(text).every), **window}
    far = {"near": 50, "near_terms": 1, "near_query": "('absent')"}
    unordered = {"near": 0, "near_terms": 0, "near_query": ""}
    found = await bases.database.fetch_all(SQL["rank"], params | unordered)
    assert await bases.database.fetch_all(SQL["rank"], params | far) == found
    return found


async def test_a_window_is_a_part_of_the_whole_order(database_url: str, tmp_path: Path) -> None:
    chance = random.Random(3)
    async with bases_in(database_url, tmp_path) as bases:
        first = ranked_pages(chance, range(200))
        await bases.become(first)
        await bases.become(ranked_pages(chance, range(40)), "other")
        # Some are gone, some are others; their slots are taken by new ones.
        kept = {page: text for page, text in first.items() if chance.random() < 0.7}
        await bases.become({**kept, **ranked_pages(chance, range(150, 230))})
        both = [await bases.base("kb"), await bases.base("other")]
        seen: set[tuple[bool, int]] = set()
        for size in (1, 2):
            nos = [base.no for base in both[:size]]
            rows = await bases.database.fetch_all(ENTRIES)
            whole = EveryPage(
                (row for row in rows if row[0] in nos), sum(base.pages for base in both[:size])
            )
            for turn in range(60):
                text = " ".join(chance.sample(WORDS, chance.randint(1, 12)))
                every, offset, limit = bool(turn % 2), chance.choice((0, 0, 3, 90)), turn % 7 + 1
                order = whole.rank(text, every=every)
                found = await ranked(bases, nos, text, every=every, offset=offset, limit=limit)
                assert found[0][0] == len(order), text
                window = [(base_no, no, key) for _, no, base_no, key, _ in found if no is not None]
                assert window == order[offset : offset + limit], (text, every, offset, limit)
                seen.add((every, len(window)))
        assert seen >= {(False, 7), (True, 0), (True, 1)}


def test_the_set_is_whole() -> None:
    written = [page.id for page in pages()]
    assert len(written) == len(set(written)) >= 200
    searches = judged()
    assert len({(one.group, one.query) for one in searches}) == len(searches) >= 60
    for one in searches:
        assert one.grades.keys() <= set(written), one.query
        assert one.ndcg(sorted(one.grades, key=lambda page: -one.grades[page])) == 1
        assert one.ndcg([]) == 0


async def test_the_order_is_no_worse_than_bm25s_and_better_in_chinese(
    database_url: str, tmp_path: Path
) -> None:
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become({page.id: page.markdown() for page in pages()})

        async def ours(query: str) -> list[str]:
            return [hit.id for hit in (await bases.search(query, limit=DEPTH)).hits]

        figures = await measure(ours)
    us = figures[OURS]
    same_rule = [figures[name] for name, (_, _, is_any) in RIVALS.items() if not is_any]
    for them in same_rule:
        assert us["en"].ndcg >= them["en"].ndcg
        assert us["zh"].ndcg > them["zh"].ndcg + 0.2
        assert us["other"].ndcg > them["other"].ndcg
    for them in figures.values():
        assert us["en"].best_first >= them["en"].best_first
        assert us["zh"].best_first >= them["zh"].best_first
    assert f"{us['en'].ndcg:.3f} · {us['en'].best_first:.0%}" in table(figures)
