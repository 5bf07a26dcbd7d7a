"""The plain wire's transcripts: at once, or (directive `later`) as a task."""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.tasks.call import Call, Json, Reply, json_reply, text_of
from loadtests.simulator.tasks.plain import ending_of
from loadtests.simulator.tasks.task import SUCCEEDED, Task

SENTENCES: Final = (
    (0.0, 2.4, "Welcome to the harbour."),
    (2.4, 6.1, "Every lantern here has been counted twice."),
    (6.1, 8.5, "Nobody has closed the ledger yet."),
)


def extract(call: Call) -> Reply:
    """`POST /v1/transcripts/extract`."""
    url = text_of(call.body, "url")
    if not url.startswith(("http://", "https://")):
        raise Refusal(400, "Invalid 'url': a public http(s) link is required.")
    language = text_of(call.body, "language", "en")
    task = call.begin("transcript", "trs_", SENTENCES[-1][1], url=url, language=language)
    if call.directive.later:
        return json_reply({"id": task.id, "status": task.state(call.now)})
    return json_reply({"id": task.id, **_result(task)})


def poll(call: Call) -> Reply:
    """`GET /v1/transcripts/extract/{id}`."""
    task = call.task(call.path[0], "transcript")
    state = task.state(call.now)
    shown: Json = {"id": task.id, "status": state, **ending_of(task, call)}
    if state == SUCCEEDED and task.plan.has_result:
        shown |= _result(task)
    return json_reply(shown)


def _result(task: Task) -> Json:
    return {
        "text": " ".join(sentence for _, _, sentence in SENTENCES),
        "title": "The harbour",
        "language": task.facts["language"],
        "duration_sec": task.made_seconds,
        "segments": [{"start": at, "end": end, "text": text} for at, end, text in SENTENCES],
    }
