"""Reads that many share: who gets which answer, whatever else happens meanwhile."""

import asyncio
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.keys.shared_reads import READ_MAX, ChangeLog, Results, SharedReads
from tests.support.aio import eventually, run


class Broken(Exception):
    """The read failed."""


class Reader:
    """Answers each question with its number and the read's; holds each read until it is let go."""

    def __init__(self) -> None:
        self.reads = SharedReads(self._read)
        self.rounds: list[list[bytes]] = []
        self.let_go: list[asyncio.Future[bool]] = []  # to whether it fails

    async def _read(self, texts: Mapping[bytes, int], heard: ChangeLog) -> Results[tuple[int, int]]:
        number = len(self.rounds)
        self.rounds.append(list(texts))
        self.let_go.append(asyncio.get_running_loop().create_future())
        if await self.let_go[number]:
            raise Broken
        if heard.has_gap:
            return {}
        return {
            name: (text, number) for name, text in texts.items() if str(text) not in heard.changes
        }

    def ask(self, number: int) -> asyncio.Task[tuple[int, int]]:
        return asyncio.create_task(self.reads.read_shared(b"%d" % number, number))

    async def begun(self, count: int) -> None:
        await eventually(lambda: len(self.rounds) == count)


async def test_what_is_asked_meanwhile_is_one_read_afterwards() -> None:
    reader = Reader()
    request = [reader.ask(number) for number in (1, 2, 1)]
    await reader.begun(1)
    request += [reader.ask(number) for number in (3, 1, 4, 3)]
    await asyncio.sleep(0)
    assert repr(reader.reads) == "<SharedReads 2 under way 2 waiting>"
    reader.let_go[0].set_result(False)
    await reader.begun(2)
    reader.let_go[1].set_result(False)
    assert await asyncio.gather(*request) == [
        (1, 0), (2, 0), (1, 0), (3, 1), (1, 0), (4, 1), (3, 1)
    ]  # fmt: skip
    assert reader.rounds == [[b"1", b"2"], [b"3", b"4"]]
    await eventually(lambda: repr(reader.reads) == "<SharedReads 0 under way 0 waiting>")


async def test_read_has_a_largest_size() -> None:
    reader = Reader()
    request = [reader.ask(number) for number in range(READ_MAX + 3)]
    for number in range(2):
        await reader.begun(number + 1)
        reader.let_go[number].set_result(False)
    await asyncio.gather(*request)
    assert [len(names) for names in reader.rounds] == [READ_MAX, 3]


async def test_only_what_a_change_overtook_is_read_again() -> None:
    reader = Reader()
    request = [reader.ask(number) for number in (1, 2, 3)]
    await reader.begun(1)
    reader.reads.note_change("2")
    reader.let_go[0].set_result(False)
    await reader.begun(2)
    assert request[0].done()
    reader.let_go[1].set_result(False)
    assert await asyncio.gather(*request) == [(1, 0), (2, 1), (3, 0)]
    assert reader.rounds[1] == [b"2"]


async def test_change_before_the_read_costs_nothing() -> None:
    reader = Reader()
    request = reader.ask(1)
    await asyncio.sleep(0)
    reader.reads.note_change("1")
    reader.reads.note_change(None)
    await reader.begun(1)
    reader.let_go[0].set_result(False)
    assert await request == (1, 0)


def test_nobody_is_left_waiting_when_the_loop_ends() -> None:
    request: list[asyncio.Task[tuple[int, int]]] = []

    async def main() -> None:
        reader = Reader()
        request.extend(reader.ask(number) for number in (1, 2))
        await reader.begun(1)

    asyncio.run(main())
    assert all(task.cancelled() for task in request)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 4)),
        st.tuples(st.just("leave"), st.integers(0, 9)),
        st.tuples(st.just("change"), st.integers(0, 4)),
        st.tuples(st.just("gap"), st.just(0)),
        st.tuples(st.just("answer"), st.just(0)),
        st.tuples(st.just("fail"), st.just(0)),
    ),
    max_size=30,
)


@given(STEPS)
def test_everyone_gets_the_answer_to_their_own_question(steps: list[tuple[str, int]]) -> None:
    """In any order: an answer is the asker's own, and from a read begun after the last change."""

    async def main() -> None:
        reader = Reader()
        request: list[asyncio.Task[tuple[int, int]]] = []
        number_of: dict[asyncio.Task[tuple[int, int]], int] = {}
        oldest: dict[asyncio.Task[tuple[int, int]], int] = {}

        def changed(numbers: range) -> None:
            for task in request:
                if number_of[task] in numbers and not task.done():
                    oldest[task] = len(reader.rounds)

        for step, number in steps:
            match step:
                case "ask":
                    task = reader.ask(number)
                    request.append(task)
                    number_of[task] = number
                    oldest[task] = 0
                case "leave" if number < len(request):
                    request[number].cancel()
                case "change":
                    reader.reads.note_change(str(number))
                    changed(range(number, number + 1))
                case "gap":
                    reader.reads.note_change(None)
                    changed(range(5))
                case "answer" | "fail" if reader.let_go and not reader.let_go[-1].done():
                    reader.let_go[-1].set_result(step == "fail")
            for _ in range(4):
                await asyncio.sleep(0)
        while len(reader.reads):
            if not reader.let_go[-1].done():
                reader.let_go[-1].set_result(False)
            await asyncio.sleep(0)
        await asyncio.gather(*request, return_exceptions=True)
        for task in request:
            if not task.cancelled() and not isinstance(task.exception(), Broken):
                own, read = task.result()
                assert own == number_of[task]
                assert read >= oldest[task]

    run(main())


async def test_error_of_one_answer_is_its_askers_alone() -> None:
    async def read(texts: Mapping[bytes, int], _heard: ChangeLog) -> Results[int]:
        return {name: Broken() if text == 2 else text for name, text in texts.items()}

    reads = SharedReads(read)
    request = [reads.read_shared(b"%d" % number, number) for number in (1, 2, 2, 3)]
    outcomes = await asyncio.gather(*request, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [int, Broken, Broken, int]
    with pytest.raises(Broken):
        await reads.read_shared(b"2", 2)
