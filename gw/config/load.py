"""From a path to a Config, or to every fault that is in the way.

The steps: bytes, text, tree (`yaml_source.py`), values (`schema.py`), how they fit together
(`relations.py`), and the frozen result (`build.py`). Nothing is made while there is a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gw.config.build import config_of
from gw.config.cautions import (
    caution_short_names,
    caution_unsent_keys,
    caution_unserved_models,
    caution_unused_channels,
    caution_versions_twice,
    caution_wildcard_admin,
)
from gw.config.config import (
    Config,
)
from gw.config.faults import FaultReport, Location, Mark
from gw.config.nodes import Unreadable, quoted
from gw.config.relations import (
    check_agents,
    check_bindings,
    check_buckets,
    check_certificate,
    check_channel_ids,
    check_fields,
    check_hosted_paths,
    check_keys,
    check_listeners,
    check_model_names,
    check_of_protocols,
    check_prices,
    check_secrets,
    check_videos,
)
from gw.config.schema import TOP
from gw.config.structures import Section, attempt, mapping
from gw.config.transports import check_proxies
from gw.config.yaml_source import parse
from metrics.logs import LEVELS

# Thousands of models fit; beyond it the wrong file was named.
MAX_FILE_BYTES = 4 * 1024 * 1024
LOG_LEVEL_VARIABLE = "GW_LOG_LEVEL"
DEFAULT_LOG_LEVEL = "info"


def load(path: Path, environ: Mapping[str, str]) -> Config:
    """Read the file at `path`. Raises ConfigFaults, with all faults, and nothing else."""
    return load_text(read_text(path), environ, source=path)


def read_text(path: Path) -> str:
    """What the file at `path` says, of which nothing was looked at yet. Raises ConfigFaults."""
    report = FaultReport(str(path))
    content = _read(path, report)
    report.raise_if_any()
    text = _decoded(content, report)
    report.raise_if_any()
    return text


def reread_text(path: Path) -> str:
    """What the file at `path` says to a gateway that runs. Raises ConfigFaults.

    An empty file is a configuration at a start. At a reload it is one that is being written in
    place, and would take every channel and model away from calls until the next signal.
    """
    text = read_text(path)
    if not text.strip():
        report = FaultReport(str(path))
        report.top().blame(found="an empty file", allowed="a whole file, put in place by a rename")
        report.raise_if_any()
    return text


def load_text(
    text: str, environ: Mapping[str, str], *, source: Path, is_priced: bool = True
) -> Config:
    """Read a configuration from its text, as if it stood in the file `source`.

    Not `is_priced`: models may lack the price that a gateway needs of them, as for whoever fills
    prices in. Raises ConfigFaults.
    """
    report = FaultReport(str(source))
    root = parse(text, environ, report)
    if isinstance(root, Unreadable):
        report.raise_if_any()
    tops = attempt(mapping(TOP), root, report.top())
    for top in tops:
        _check(top, is_priced=is_priced)
        _check_log_level(top, environ)
        check_proxies(top.get("channels") or (), environ)
    report.raise_if_any()
    top = tops[0]
    caution_wildcard_admin(top)
    caution_unused_channels(top.values["models"], top.values["channels"])
    caution_unserved_models(top.values["models"], top.values["channels"])
    caution_short_names(top.values["channels"])
    caution_versions_twice(top.values["channels"])
    caution_unsent_keys(top.values["channels"])
    config = config_of(top.values, source.absolute(), environ)
    return replace(
        config,
        log_level=config.log_level or environ.get(LOG_LEVEL_VARIABLE) or DEFAULT_LOG_LEVEL,
        cautions=tuple(report.cautions),
    )


def _read(path: Path, report: FaultReport) -> bytes:
    allowed = "a YAML file that can be read"
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        report.top().blame(found=(reason or str(error)).lower(), allowed=allowed)
        return b""
    if len(content) > MAX_FILE_BYTES:
        report.top().blame(found=f"more than {MAX_FILE_BYTES} bytes", allowed=allowed)
    return content


def _decoded(content: bytes, report: FaultReport) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        mark = Mark(before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        Location(report, "", mark).blame(
            found=f"the byte 0x{content[error.start]:02x}", allowed="text in UTF-8"
        )
        return ""


def _check(top: Section, *, is_priced: bool) -> None:
    channels, models = top.get("channels"), top.get("models") or ()
    check_listeners(top)
    check_secrets(top)
    for section in (top, *(channels or ())):
        check_certificate(section.get("tls" if section is top else "client_certificate"))
    check_buckets(top)
    check_channel_ids(channels or ())
    check_model_names(models)
    check_bindings(models, channels)
    if is_priced:
        check_prices(models)
    check_of_protocols(channels or ())
    check_hosted_paths(channels or ())
    check_fields(channels or ())
    check_keys(channels or ())
    check_videos(models)
    check_agents(top.get("agents"), models)


def _check_log_level(top: Section, environ: Mapping[str, str]) -> None:
    """The environment decides where the file is silent."""
    level = environ.get(LOG_LEVEL_VARIABLE)
    if level and top.get("log_level") is None and level not in LEVELS:
        top.location("log_level").blame(
            found=f"{LOG_LEVEL_VARIABLE}={quoted(level)} in the environment",
            allowed=f"one of {', '.join(LEVELS)}",
        )
