"""A long conversation of each agent, and how much of it a provider's cache can find again.

Each turn reads two files at once. Both have the calls of the next turn, since some agents send
results in the order in which they came. The second turn also writes a file, by a call whose
arguments have 220 KB. In the middle the model falls silent, the agent is interrupted as by Ctrl-C,
compacts its conversation, and goes on with a new prompt in a new process, where a command of it
can. With `is_asked` each turn is a question's, in a process of its own, as in a session with a
person, and nothing is interrupted.

`Identical` is the share of each prompt that the next one begins with, as the upstream was sent it,
but that a compaction begins another conversation;
`By marks` is the share of what could be found again that marks of the cache find, for upstreams
that need them. Both count requests with tools, so that titles and summaries are left out.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment
from loadtests.rig.waiting import until
from tests.headless.agents import DIRECT, MODELS, SECONDS, Agent, faults_of, refusals_of, set_up
from tests.headless.prefixes import hits_by_marks, identical_share

HEAD = "| Agent | Way | Calls | Identical | By marks | Result |\n|---|---|---|---|---|---|"
# The call log of one page, and what the simulator remembers, have room for so many.
TURNS_MAX = 40
NOTES = "".join(f"Line {number} of the notes says nothing new.\n" for number in range(30))
SILENCE = {"text": "Let me think about it.", "pause": 2}
DONE = {"text": "That is all."}
SUMMARY = {"text": "Notes were read, which say nothing new."}
LARGE_TURN, LARGE_CHARACTERS = 1, 220_000


def ways_of(agent: Agent) -> tuple[str, ...]:
    """Natively, translated, without the gateway."""
    is_of_messages = agent.client == "claude-code"
    return (*(way for way in MODELS if not (is_of_messages and "messages" in way)), DIRECT)


@dataclass(frozen=True)
class Loop:
    """So many turns that call tools."""

    turns: int
    is_requested: bool = False
    is_shown: bool = False

    def line_of(self, h: Deployment, agent: Agent, way: str, place: Path, packages: Path) -> str:
        """Its line of the table."""
        environ, (account, key) = set_up(h, agent, way, place, packages)
        before = refusals_of(h)
        h.upstream.reset()
        faults, runs, compacted, compactions = [], 0, 0, 0
        for runs, (prompt, is_silent) in enumerate(self._prompts(agent, place / "work"), 1):
            preceding = len(_bodies(h))
            fault = self._run(h, agent, environ, place / "work", prompt, runs > 1, is_silent)
            faults += [f"run {runs}: {fault}"] if fault else []
            if agent.compaction and prompt.startswith(agent.compaction):
                compacted = len(_bodies(h))
                compactions = compacted - preceding
        bodies = _bodies(h)
        if not any(len(json.dumps(one)) > LARGE_CHARACTERS for one in bodies):
            faults.append("no call of large arguments was sent again")
        if len(bodies) - compactions <= self.turns:
            faults.append(f"{len(bodies)} requests with tools")
        if way != DIRECT:
            rows = Client(h.gateway.url, key).get("/v1/logs?limit=100").json["data"]
            refused = refusals_of(h) - before
            refused -= Counter({"not_found 404": agent.unknown_paths * runs})
            ended = ["success"]
            if agent.again and not self.is_requested:  # it left in the middle
                refused = Counter({name: n for name, n in refused.items() if "499" not in name})
                ended.append("interrupted")
            faults += faults_of(rows, h.gw("account", "show", account), refused, ended)
        is_marked = any("cache_control" in json.dumps(one) for one in bodies)
        hits = f"{hits_by_marks(bodies):.1%}" if is_marked else ""
        same = f"{identical_share((bodies[:compacted], bodies[compacted:])):.1%}"
        result = "; ".join(faults) or "ok"
        return f"| {agent.client} | {way} | {len(bodies)} | {same} | {hits} | {result} |"

    def _prompts(self, agent: Agent, work: Path) -> Iterator[tuple[str, bool]]:
        """Write the files; the prompts of each run, and whether the model falls silent in it."""
        can_go_on = bool(agent.again)
        starts = {0}
        if can_go_on:
            starts |= set(range(self.turns)) if self.is_requested else {self.turns // 2}
        for turn in range(self.turns):
            self._write_files(agent, work, turn, starts)
        for start in sorted(starts):
            if start and agent.compaction and not self.is_requested:
                for name in ("notes", "step"):  # some of what was read is read again by itself
                    for turn in range(start):
                        (work / f"{name}-{turn}.txt").write_text(NOTES, encoding="utf-8")
                yield f"{agent.compaction} [[sim {json.dumps(SUMMARY)}]]", False
            calls = json.dumps(self._calls(agent, work, start))
            is_last = start == max(starts)
            yield f"Read on from {start}. [[sim {calls}]]", not (is_last or self.is_requested)

    def _write_files(self, agent: Agent, work: Path, turn: int, starts: Collection[int]) -> None:
        """Write the two files of a turn, with what the model calls next."""
        following: Mapping[str, Any] = self._calls(agent, work, turn + 1)
        if turn + 1 in starts:
            following = DONE if self.is_requested else SILENCE
        step = f"[[sim {json.dumps(following)}]]\n"
        (work / f"step-{turn}.txt").write_text(step, encoding="utf-8")
        (work / f"notes-{turn}.txt").write_text(step + NOTES, encoding="utf-8")

    def _calls(self, agent: Agent, work: Path, turn: int) -> Mapping[str, Any]:
        if turn == self.turns:
            return DONE
        notes, step = (
            agent.reads(work / f"{name}.txt") for name in (f"notes-{turn}", f"step-{turn}")
        )
        calls = notes["tool_calls"] + step["tool_calls"]
        if turn == LARGE_TURN:
            calls.insert(0, agent.writes_much(work / "large.txt", LARGE_CHARACTERS))
        return {"tool_calls": calls}

    def _run(
        self,
        h: Deployment,
        agent: Agent,
        environ: Mapping[str, str],
        work: Path,
        prompt: str,
        goes_on: bool,
        is_silent: bool,
    ) -> str:
        """One process of the agent; returns what was wrong with it."""
        command = [*(agent.again if goes_on else agent.command)]
        printed = work.parent / "printed.txt"
        with printed.open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                command if agent.is_piped else [*command, prompt],
                cwd=work,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            assert process.stdin is not None
            process.stdin.write(prompt.encode() if agent.is_piped else b"")
            process.stdin.close()
            if is_silent:
                until(lambda: h.upstream.stats()["paused"] or process.poll() is not None)
                if process.poll() is not None:
                    return "it ended before it was interrupted"
                os.killpg(process.pid, signal.SIGINT)
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return "it did not end"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if is_silent:
                h.upstream.resume()
            if self.is_shown:
                for one in h.upstream.requests(1):
                    print(one["body"][-1500:], file=sys.stderr)
                print(printed.read_text("utf-8", "replace")[-3000:], file=sys.stderr)
        return f"it ended with {code}" if code != 0 and not is_silent else ""


def _bodies(h: Deployment) -> list[dict[str, Any]]:
    """The requests with tools that the upstream was sent, in order."""
    bodies = [json.loads(one["body"]) for one in h.upstream.requests(1000) if one["body"]]
    return [one for one in bodies if one.get("tools")]
