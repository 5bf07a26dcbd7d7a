"""Transcripts: at once, or (directive `later`) as a task"""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import shape
from loadtests.simulator.tasks.call import SUBMIT, Call, Json, Link
from loadtests.simulator.tasks.plain.wire import begun, plain_wire
from loadtests.simulator.tasks.task import SUCCEEDED, Task

TRANSCRIPTS = plain_wire("transcripts")

SENTENCES: Final = (
    (0.0, 2.4, "Welcome to the harbour."),
    (2.4, 6.1, "Every lantern here has been counted twice."),
    (6.1, 8.5, "Nobody has closed the ledger yet."),
)


@TRANSCRIPTS.serves(SUBMIT, "POST /v1/transcripts/extract", shape(url=Link, language=str | None))
def extract_script(call: Call) -> Json:
    language = call.body.get("language", "en")
    task = call.begin("transcript", "trs_", SENTENCES[-1][1], language=language)
    if call.directive.later:
        return {"id": task.id, "status": task.state(call.now)}
    return {"id": task.id, **_script(task)}


@TRANSCRIPTS.serves("poll", "GET /v1/transcripts/extract/*")
def poll_script(call: Call) -> Json:
    task = call.task("transcript")
    shown = begun(task, call)
    return shown | (_script(task) if shown["status"] == SUCCEEDED else {})


def _script(task: Task) -> Json:
    return {
        "text": " ".join(sentence for _, _, sentence in SENTENCES),
        "title": "The harbour",
        "language": task.facts["language"],
        "duration_sec": task.made_seconds,
        "segments": [{"start": at, "end": end, "text": text} for at, end, text in SENTENCES],
    }
