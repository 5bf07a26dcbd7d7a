"""The demo's configuration: written anew at each start."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from gw.demo.summary import command, shown

# Preferred ports, so that the printed lines are usually the same.
PORT, ADMIN_PORT, CONSOLE_PORT = 8080, 9090, 9080

MARK = "# Written by `gw demo`"
CONFIGURATION = """\
# Written by `gw demo`, anew at each start. Point other commands at it:
#   {command} account list --config {path}
listen: 127.0.0.1:{port}
admin_listen: 127.0.0.1:{admin_port}
console_listen: 127.0.0.1:{console_port}
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
    on_429: next                             # one more channel before the client has its 429
    data: {{retention_days: 0, region: eu}}    # for calls with `x-gateway-data: region=eu`
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
    price: {{input: "1.25", output: "10", cached_input: "0.125", per_web_search: "0.01"}}
    capabilities: [tools, json, web_search, image_gen]
    aliases: [demo]
  - id: demo-small
    display_name: Demo Small
    owned_by: simulator
    channels: [simulator-b, simulator-a]
    context_size: 32000
    max_output_tokens: 2048
    price: {{input: "0.1", output: "0.4", per_web_search: "0.01"}}
    capabilities: [tools, json]
  - id: demo-best  # demo-large, or demo-small while that has no channel that works
    display_name: Demo Best
    chain: [demo-large, demo-small]
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
  - {{id: demo-rank, endpoint_type: rerank, channels: [simulator-a, simulator-b],
     price: {{per_call: "0.002"}}}}
  - {{id: demo-vectors, endpoint_type: embeddings, channels: [simulator-a, simulator-b],
     price: {{input: "0.02"}}}}
  - {{id: demo-judge, endpoint_type: decisions, channels: [simulator-a, simulator-b],
     price: {{input: "0.1"}}}}
  - {{id: demo-guard, endpoint_type: moderations, channels: [simulator-a, simulator-b]}}
  - {{id: demo-words, endpoint_type: audio_transcriptions, channels: [simulator-a, simulator-b],
     price: {{per_second: "0.0001"}}}}
"""
# The models that the simulator lists.
MODELS = re.findall(r"\bid: ([\w-]+)", CONFIGURATION.partition("\nmodels:")[2])
MEDIA = (
    "videos, avatars, clips, music, speech, voices, transcripts, transcriptions, rerank,"
    " moderations, embeddings, decisions"
)
# How long the simulator takes for a film or a song.
TASK_SECONDS = 3


def is_ours(path: Path) -> bool:
    """Whether the file is missing or a demo's, so that the configuration may replace it."""
    return not path.exists() or path.read_text("utf-8", "replace").startswith(MARK)


def write_configuration(path: Path, upstream: str) -> None:
    text = CONFIGURATION.format(
        command=command(),
        path=shown(path),
        upstream=upstream,
        media=MEDIA,
        port=_free_or_any(PORT),
        admin_port=_free_or_any(ADMIN_PORT),
        console_port=_free_or_any(CONSOLE_PORT) or _any_free(),
    )
    path.write_text(text, encoding="utf-8")


def _free_or_any(port: int) -> int:
    """Return the port if it is free, else 0 for any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _any_free() -> int:
    """Return a free port, for a listener whose number must be known in advance."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
