"""`gw demo`: everything on one machine with nothing configured, until Ctrl-C.

The upstream simulator runs as a process of its own; the gateway runs here, on an embedded
PostgreSQL below the data folder, with an account that has credit. The configuration is written
where the other commands can be pointed at it. A second demo finds the same account and key again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import ujson

from gw.config.config import Config
from gw.config.load import load
from gw.demo.account import open_account
from gw.demo.agent import open_agent
from gw.demo.text import Demo, as_text, command, shown
from gw.run import run_gateway
from gw.serve import Gateway
from metrics.logs import write_line

READY_SECONDS = 30.0
# Tried first, so that the printed lines look the same every time.
PORT, ADMIN_PORT = 8080, 9090

MARK = "# Written by `gw demo`"
CONFIGURATION = """\
# Written by `gw demo`, anew at each start. Point other commands at it:
#   {command} account list --config {path}
listen: 127.0.0.1:{port}
admin_listen: 127.0.0.1:{admin_port}
data_dir: .
log_level: ${{GW_LOG_LEVEL:-warning}}
tasks: {{poll_first: 1, poll_max: 2}}
media_store: {{kind: local, max_gb: 1}}   # films and songs stay here when the simulator has gone
channels:
  - id: simulator-a
    base_url: {upstream}
    api_key: demo-a
    protocols: [chat, messages, responses, native, images, {media}]
    tools: [web_search, image_generation]
  - id: simulator-b
    base_url: {upstream}
    api_key: demo-b
    protocols: [chat, messages, responses, native, images, {media}]
    tools: [web_search, image_generation]
    priority: 2
models:
  - id: demo-large
    display_name: Demo Large
    owned_by: simulator
    channels: [simulator-a, simulator-b]
    context_size: 128000
    max_output_tokens: 4096
    price: {{input: "1.25", output: "10", cached_input: "0.125"}}
    capabilities: [tools, json, web_search, image_gen]
    aliases: [demo]
  - id: demo-small
    display_name: Demo Small
    owned_by: simulator
    channels: [simulator-b, simulator-a]
    context_size: 32000
    max_output_tokens: 2048
    price: {{input: "0.1", output: "0.4"}}
    capabilities: [tools, json]
  - id: demo-picture
    display_name: Demo Picture
    owned_by: simulator
    channels: [simulator-a, simulator-b]
    endpoint_type: images_generations
    price: {{per_image: "0.04"}}
    capabilities: [image_gen]
  - {{id: demo-film, endpoint_type: videos_generations, channels: [simulator-a, simulator-b],
     price: {{per_second: "0.1", per_second_by_resolution: {{1080p: "0.2"}}}},
     capabilities: [video_gen]}}
  - {{id: dh-avatar, endpoint_type: videos_generations, channels: [simulator-a, simulator-b],
     price: {{per_second: "0.05"}}, capabilities: [video_gen]}}
  - {{id: clip-realman, endpoint_type: videos_generations, channels: [simulator-a, simulator-b],
     price: {{per_second: "0.004"}}, capabilities: [video_gen]}}
  - {{id: demo-avatar, endpoint_type: videos_avatars, channels: [simulator-a, simulator-b],
     price: {{per_call: "0.5"}}}}
  - {{id: demo-song, endpoint_type: music_generations, channels: [simulator-a, simulator-b],
     price: {{per_generation: "0.12"}}}}
  - {{id: demo-speech, endpoint_type: audio_speech, channels: [simulator-a, simulator-b],
     price: {{per_character: "0.00003"}}}}
  - {{id: demo-voice, endpoint_type: audio_voices, channels: [simulator-a, simulator-b],
     price: {{per_call: "0.3"}}}}
  - {{id: demo-script, endpoint_type: transcripts_extract, channels: [simulator-a, simulator-b],
     price: {{per_call: "0.02"}}}}
"""
MEDIA = "videos, avatars, clips, music, speech, voices, transcripts"
# So long the simulator makes a film or a song.
TASK_SECONDS = 3


class SimulatorMissing(Exception):
    """The upstream simulator did not start."""


def is_ours(path: Path) -> bool:
    """May the configuration be written there? Only over nothing, or over an earlier demo's."""
    return not path.exists() or path.read_text("utf-8", "replace").startswith(MARK)


async def run_demo(path: Path, *, is_json: bool) -> int:
    """Run until Ctrl-C or SIGTERM, configuration at `path`; return the exit code."""
    async with _simulator() as upstream:
        _write_configuration(path, upstream)

        async def show(gateway: Gateway) -> None:
            key = await open_account(gateway.database, gateway.secret)
            agent = await open_agent(gateway, key.account_id)
            demo = Demo(gateway.listen_url, gateway.admin_url, path, key, agent)
            print(_as_json(demo) if is_json else as_text(demo), flush=True)

        def read() -> Config:
            return load(path, os.environ)

        return await run_gateway(read(), read_again=read, on_ready=show)


def _write_configuration(path: Path, upstream: str) -> None:
    text = CONFIGURATION.format(
        command=command(),
        path=shown(path),
        upstream=upstream,
        media=MEDIA,
        port=_free_or_any(PORT),
        admin_port=_free_or_any(ADMIN_PORT),
    )
    path.write_text(text, encoding="utf-8")


@asynccontextmanager
async def _simulator() -> AsyncIterator[str]:
    """The simulator's address, while it runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "loadtests.simulator",
        "--port",
        "0",
        "--task-seconds",
        str(TASK_SECONDS),
        stderr=asyncio.subprocess.PIPE,
        # Ctrl-C reaches the whole terminal; the simulator must outlive the calls that drain.
        start_new_session=True,
    )
    assert process.stderr is not None
    drained: asyncio.Task[None] | None = None
    try:
        async with asyncio.timeout(READY_SECONDS):
            while line := (await process.stderr.readline()).decode():
                if line.startswith("ready listen="):
                    break
            else:
                raise SimulatorMissing
        drained = asyncio.create_task(_pass_on(process.stderr))
        yield line.partition("=")[2].split()[0]
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
        if drained is not None:
            await drained


async def _pass_on(stream: asyncio.StreamReader) -> None:
    async for line in stream:
        write_line(line.decode(errors="replace").rstrip("\n"))


def _free_or_any(port: int) -> int:
    """This port if it is free, else 0 for any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _as_json(demo: Demo) -> str:
    return str(
        ujson.dumps(
            {
                "base_url": demo.url,
                "admin_url": demo.admin_url,
                "key": demo.key.text,
                "key_id": demo.key.key_id,
                "account_id": demo.key.account_id,
                "agent_id": demo.agent and demo.agent.id,
                "agent_key": demo.agent and demo.agent.key,
                "config": str(demo.config),
            },
            escape_forward_slashes=False,
        )
    )
