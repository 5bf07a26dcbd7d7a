"""A request whose large answer counts for its account, whichever way it is sent."""

from __future__ import annotations

from channels.answers import SMALL_ANSWER_BYTES, Answer
from gw.http.application import HttpApplication
from gw.http.tornado.request import TornadoRequest


class AnsweredRequest(TornadoRequest):
    """A request that keeps its answer, from an upstream's bytes to the client's last read."""

    _application: HttpApplication
    _answer: Answer | None = None  # if it is large
    _has_left = False  # flight

    @property
    def answer_owner(self) -> str:
        """The account that the answer counts for."""
        raise NotImplementedError

    def unsent_bytes(self) -> int:
        """Return the bytes that the client has not read yet."""
        raise NotImplementedError

    def cut_reader(self) -> None:
        """Abort the connection of a client that reads too slowly."""
        raise NotImplementedError

    async def keep(self, size_bytes: int) -> None:
        """See AnswerKeeper; work that outlives the request is not counted."""
        if not self._has_left:
            await self._whole_answer().grow(size_bytes)

    def note_sent(self, chunk: bytes) -> None:
        """Count the first bytes that are sent, which a whole answer is."""
        if self._answer is not None or len(chunk) > SMALL_ANSWER_BYTES:
            self._whole_answer().sent(len(chunk))

    def leave_answer(self) -> None:
        """The client has all of the answer, or has left."""
        self._has_left = True
        if self._answer is not None:
            self._answer.end()

    def _whole_answer(self) -> Answer:
        answer = self._answer
        if answer is None:
            budget = self._application.services.answers
            answer = budget.begin(self.answer_owner, self.cut_reader, self.unsent_bytes)
            self._answer = answer
        return answer
