"""Loads a Config from a path, or reports every fault.

The steps: bytes, text, tree (`yaml_source.py`), values of the declared keys (`config.py`,
`channels.py`, `models.py`), relations between them (`relations.py`), and the frozen result. A fault
prevents all later steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from channels.files import bounded, read_regular
from channels.registry import Registry
from gw.config import cautions, chains, mappings, relations
from gw.config.channels import channel, channel_spec
from gw.config.config import Certificate, Config
from gw.config.faults import Caution, FaultReport, Location, Mark
from gw.config.keys import keys_of, record_of
from gw.config.models import Model, models_of
from gw.config.nodes import Unreadable, quoted
from gw.config.transport import check_proxies
from gw.config.yaml_source import parse
from metrics.logs import LEVELS

# Enough for thousands of models; a larger file is the wrong one.
MAX_FILE_BYTES = 4 * 1024 * 1024
LOG_LEVEL_VARIABLE = "GW_LOG_LEVEL"
DEFAULT_LOG_LEVEL = "info"
# The keys of the file.
TOP: mappings.Schema = {
    **keys_of(Config),
    "channels": mappings.Key(mappings.listing(channel(), "a list of channels"), ()),
    "models": mappings.Key(
        mappings.listing(mappings.mapping(keys_of(Model)), "a list of models"), ()
    ),
}


def load(path: Path, environ: Mapping[str, str]) -> Config:
    """Read the file at `path`. Raises only ConfigFaults, with all faults."""
    return load_text(read_text(path), environ, source=path)


def read_text(path: Path) -> str:
    """Return the content of the file at `path`, unchecked. Raises ConfigFaults.

    For commands and a start, which may wait: it may be a pipe, as `<(…)` makes one.
    """
    return _text_of(path, _waited_for)


def _text_of(path: Path, read: Callable[[Path, int], bytes]) -> str:
    report = FaultReport(str(path))
    content = _read(path, report, read)
    report.raise_if_any()
    text = _decoded(content, report)
    report.raise_if_any()
    return text


def reread_text(path: Path) -> str:
    """Return the text of the regular file at `path`, for a running gateway. Raises ConfigFaults.

    An empty file is a valid configuration at a start. At a reload it is being overwritten in place,
    and would remove every channel and model until the next signal.
    """
    text = _text_of(path, read_regular)
    if not text.strip():
        report = FaultReport(str(path))
        report.top().blame(found="an empty file", allowed="a whole file, put in place by a rename")
        report.raise_if_any()
    return text


def load_text(
    text: str, environ: Mapping[str, str], *, source: Path, is_priced: bool = True
) -> Config:
    """Load a configuration from its text, as if read from the file `source`.

    Without `is_priced` models may lack required prices, as for `gw models`, which adds prices.
    Raises ConfigFaults.
    """
    report = FaultReport(str(source))
    root = parse(text, environ, report)
    if isinstance(root, Unreadable):
        report.raise_if_any()
    tops = mappings.attempt(mappings.mapping(TOP), root, report.top())
    for top in tops:
        _check(top, is_priced=is_priced)
        _check_log_level(top, environ)
        check_proxies(top.get("channels") or (), environ)
    report.raise_if_any()
    top = tops[0]
    cautions.caution_wildcard_listeners(top)
    cautions.caution_unused_channels(top.values["models"], top.values["channels"])
    cautions.caution_unserved_models(top.values["models"], top.values["channels"])
    cautions.caution_unpriced(top.values["models"], top.values["channels"])
    cautions.caution_short_names(top.values["channels"])
    cautions.caution_versions_twice(top.values["channels"])
    cautions.caution_endpoints_in_address(top.values["channels"])
    cautions.caution_quoted_keys(top.values["channels"])
    cautions.caution_unsent_keys(top.values["channels"])
    return _config_of(top, source.absolute(), environ, tuple(report.cautions))


def _config_of(
    top: mappings.Section, source: Path, environ: Mapping[str, str], found: tuple[Caution, ...]
) -> Config:
    values, folder = top.values, source.parent
    chain, private_key = values["tls"].values["certificate"], values["tls"].values["key"]
    asked = cautions.asked_tiers(values["channels"])
    return record_of(
        Config,
        top,
        tls=Certificate(folder / chain, folder / private_key) if chain else None,
        data_dir=folder / values["data_dir"],
        translations=values["translations"] | values["translate"],
        log_level=values["log_level"] or environ.get(LOG_LEVEL_VARIABLE) or DEFAULT_LOG_LEVEL,
        registry=Registry.of(
            channels=[channel_spec(one, folder, environ) for one in values["channels"]],
            models=models_of(values["models"], asked),
        ),
        source=source,
        cautions=found,
    )


def _read(path: Path, report: FaultReport, read: Callable[[Path, int], bytes]) -> bytes:
    try:
        return read(path, MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        found = (reason or str(error)).lower()
        report.top().blame(found=found, allowed="a YAML file that can be read")
        return b""


def _waited_for(path: Path, bytes_max: int) -> bytes:
    with path.open("rb") as file:
        content = file.read(bytes_max + 1)
    return bounded(content, bytes_max, path)


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


def _check(top: mappings.Section, *, is_priced: bool) -> None:
    channels, models = top.get("channels"), top.get("models") or ()
    relations.check_listeners(top)
    relations.check_secrets(top)
    relations.check_retention(top)
    for section in (top, *(channels or ())):
        relations.check_certificate(section.get("tls" if section is top else "client_certificate"))
    relations.check_buckets(top)
    relations.check_channel_ids(channels or ())
    relations.check_model_names(models)
    relations.check_bindings(models, channels)
    if is_priced:
        relations.check_prices(models)
    relations.check_of_protocols(channels or ())
    relations.check_hosted_paths(channels or ())
    relations.check_fields(channels or ())
    relations.check_keys(channels or ())
    relations.check_videos(models)
    relations.check_agents(top.get("agents"), models)
    translations = (top.get("translations") or set()) | (top.get("translate") or set())
    chains.check_chains(models, channels or (), translations)


def _check_log_level(top: mappings.Section, environ: Mapping[str, str]) -> None:
    """Check the environment's level, which applies if the file has none."""
    level = environ.get(LOG_LEVEL_VARIABLE)
    if level and not top.get("log_level") and level not in LEVELS:
        top.location("log_level").blame(
            found=f"{LOG_LEVEL_VARIABLE}={quoted(level)} in the environment",
            allowed=f"one of {', '.join(LEVELS)}",
        )
