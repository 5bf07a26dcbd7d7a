"""The gateway that a run starts for itself: what it sells, and what its accounts may read."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loadtests.rig.processes import Target, gateway

PAGES = 40
BASE = "handbook"  # of agents; users read a base of their own
AGENT_ACCOUNTS = 3  # as many accounts have an agent
PERSONA = "You count tokens for those who ask, and say where they stand in the ledger."
# So long the simulator makes a film or a song.
TASK_SECONDS = 3
_CHANNELS = dict.fromkeys(
    ("first", "second", "third"),
    "chat messages responses native images videos avatars clips music speech voices transcripts",
)
_FILM = {"endpoint_type": "videos_generations", "price": {"per_second": "0.01"}}
_SOLD: dict[str, dict[str, Any]] = {
    "sim-model": {},
    "load-picture": {"endpoint_type": "images_generations", "price": {"per_image": "0.04"}},
    "load-film": _FILM,
    "dh-avatar": _FILM,
    "clip-realman": _FILM,
    "load-avatar": {"endpoint_type": "videos_avatars", "price": {"per_call": "0.5"}},
    "load-song": {"endpoint_type": "music_generations", "price": {"per_generation": "0.12"}},
    "load-speech": {"endpoint_type": "audio_speech", "price": {"per_character": "0.00003"}},
    "load-voice": {"endpoint_type": "audio_voices", "price": {"per_call": "0.3"}},
    "load-script": {"endpoint_type": "transcripts_extract", "price": {"per_call": "0.02"}},
}


@contextmanager
def own_gateway(
    upstream_url: str, accounts: int, families: Sequence[str], *, shed_delay_ms: int | None
) -> Iterator[tuple[Target, Sequence[str]]]:
    """A gateway with funded accounts, and the keys of its agents. Raises VerifyFailed at its end.

    There is what users of these families read.
    """
    models = [{"id": name, "channels": [*_CHANNELS], **sold} for name, sold in _SOLD.items()]
    settings: dict[str, Any] = {"tasks": {"poll_first": 1, "poll_max": 2}}
    if shed_delay_ms is not None:
        settings["shed_delay_ms"] = shed_delay_ms
    with gateway(
        upstream_url, channels=_CHANNELS, models=models, accounts=accounts, settings=settings
    ) as target:
        assert target.config is not None
        listed = json.loads(_gw(target.config, "account", "list", "--json"))["accounts"]
        ids = [account["id"] for account in listed]
        if {"knowledge", "mcp"} & {*families}:
            _import_pages(target.config, ids)
        yield target, _agents(target.config, ids[:AGENT_ACCOUNTS]) if "agents" in families else []


def _agents(config: Path, accounts: Sequence[str]) -> list[str]:
    """An agent for each account; returns their keys."""
    _import_pages(config, accounts, "--kb", BASE)
    keys = []
    with tempfile.NamedTemporaryFile("w", prefix="gw-persona-") as persona:
        persona.write(PERSONA)
        persona.flush()
        for account in accounts:
            of = ["--account", account, "--json", "--name", "load"]
            said = ["--system-prompt", persona.name, "--model", "sim-model", "--kb", BASE]
            _gw(config, "account", "set", account, "--allow", "sim-model")
            agent = json.loads(_gw(config, "agent", "create", *of, *said))["id"]
            made = _gw(config, "key", "create", *of, "--kind", "agent", "--agent", agent)
            keys.append(json.loads(made)["key"])
    return keys


def _import_pages(config: Path, accounts: Sequence[str], *base: str) -> None:
    """Give every account the same pages."""
    with tempfile.TemporaryDirectory(prefix="gw-pages-") as folder:
        for number in range(PAGES):
            after = (number + 1) % PAGES
            Path(folder, f"Counting-{number}.md").write_text(
                f"---\ntags: [ledger, part-{number % 5}]\n---\n# Counting {number}\n"
                f"Every token stands in the ledger once. See [[Counting-{after}]].\n",
                encoding="utf-8",
            )
        for account in accounts:
            _gw(config, "kb", "import", "--account", account, *base, folder)


def _gw(config: Path, *words: str) -> str:
    command = [sys.executable, "-m", "gw", *words, "--config", str(config)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
