"""Inserts the links to our own copies into a task's result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from actors.media_store.copies import Kept
from channels.media import results

# Returns the link to a copy, and its expiry in Unix seconds.
Link = Callable[[Kept], tuple[str, float]]


def with_own_links(
    result: results.TaskResult, kept: Mapping[int, Kept], link: Link
) -> results.TaskResult:
    """Return the result with our link for each kept copy; by position in `sources_of`."""
    if not kept:
        return result
    links = {position: link(copy) for position, copy in kept.items()}
    if isinstance(result, results.MusicResult):
        return _songs(result, links)
    if isinstance(result, results.VideoResult) and result.output_files:
        result = replace(result, output_files=_files(result.output_files, links))
    if 0 in links and isinstance(result, results.VideoResult | results.SpeechResult):
        url, expires_at = links[0]
        return replace(result, url=url, expires_at=expires_at)
    return result


def _files(files: list[Any], links: Mapping[int, tuple[str, float]]) -> list[Any]:
    """Return the entries of `output_files`, each with its own link."""
    return [
        {**file, "url": links[position][0]} if position in links else file
        for position, file in enumerate(files, 1)
    ]


def _songs(
    result: results.MusicResult, links: Mapping[int, tuple[str, float]]
) -> results.MusicResult:
    tracks = tuple(
        replace(
            track,
            audio_url=links.get(2 * number, (track.audio_url,))[0],
            image_url=links.get(2 * number + 1, (track.image_url,))[0],
        )
        for number, track in enumerate(result.tracks)
    )
    # They are valid until the first of them expires, which may be one of the upstream's.
    is_whole = all(
        2 * number in links for number, track in enumerate(result.tracks) if track.audio_url
    )
    ends = [expires_at for _, expires_at in links.values()]
    if not is_whole and result.expires_at is not None:
        ends.append(result.expires_at)
    return replace(result, tracks=tracks, expires_at=min(ends))
