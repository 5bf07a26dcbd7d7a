"""Writes a plan as text of a configuration, an existing one or a new one.

Secrets go to a file of variables that only its owner can read, so the configuration contains none.
What the file has is kept: a channel to the same account is used as it is, a model of the same name
is unchanged, so that a second import changes nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from channels.credentials import NO_AUTH
from channels.kinds import KINDS, REGION, Kind
from channels.registry import Binding, ChannelSpec
from gw.config.faults import FaultReport
from gw.config.load import load_text
from gw.moving_in.plan import (
    Plan,
    PlannedChannel,
    PlannedModel,
    SecretText,
    Value,
    Variable,
    free_id,
    is_priced,
    proved,
    variable_name,
)
from gw.price_list import writing
from gw.price_list.file_text import FileText, edited
from gw.price_list.starter import HEAD


@dataclass(slots=True)
class Written:
    """The new text of a configuration and its file of variables; the ids of what is new.

    `unpriced`: models without a price, a fault that `check-config` reports.
    """

    text: str
    secrets: dict[str, str] = field(default_factory=dict)
    channels: list[str] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    unpriced: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)  # plan's id: id in the file


def write_plan(
    plan: Plan, text: str, environ: Mapping[str, str], *, source: Path, secrets: Mapping[str, str]
) -> Written:
    """Add a plan to `text`, the content of the file `source`; an empty one starts a new file.

    `secrets`: the present variables of the file beside it. Raises ConfigFaults.
    """
    known = {**plan.unset(), **environ, **secrets}
    before = load_text(text or HEAD, known, source=source, is_priced=False).registry
    written = Written(text or HEAD, secrets=dict(secrets))
    items = _channels(plan, before.channels, written, known)
    models = _models(plan, before.models, written)
    file = FileText(written.text, source)
    edits = [file.append("channels", items)] if items else []
    if models and not edits:
        edits = [file.append("models", models)]
        written.text = edited(written.text, edits)
    elif edits:
        written.text = edited(written.text, edits)
        if models:
            again = FileText(written.text, source)
            written.text = edited(written.text, [again.append("models", models)])
    _check(written, before, {**known, **written.secrets}, source)
    return written


def env_file(text: str, secrets: Mapping[str, str]) -> str:
    """Append the variables that a file of variables lacks, quoted for a shell."""
    known = read_env_file(text)
    start = text if not text or text.endswith("\n") else f"{text}\n"
    new = (name for name in secrets if name not in known)
    return start + "".join(f"{name}={shlex.quote(secrets[name])}\n" for name in new)


def read_env_file(text: str) -> dict[str, str]:
    """Parse a file written by `env_file`; lines added by hand too, if they can be parsed."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            try:
                parts = shlex.split(value)
            except ValueError:  # a quote without an end: the value as written
                parts = [value]
            found[name.removeprefix("export ").strip()] = parts[0] if parts else ""
    return found


def _channels(
    plan: Plan, existing: Mapping[str, ChannelSpec], written: Written, environ: Mapping[str, str]
) -> str:
    items = []
    free = dict(existing)
    taken: dict[str, object] = {**existing}
    for channel_id, channel in plan.channels.items():
        same = next((one for one in free.values() if _leads_there(one, channel, environ)), None)
        if same is not None:
            del free[same.id]
            written.names[channel_id] = same.id
            written.kept.append(same.id)
            continue
        name = free_id(channel_id, taken)
        taken[name] = None
        written.names[channel_id] = name
        written.channels.append(name)
        items.append(writing.list_item(_channel_lines(name, channel, written.secrets)))
    return "".join(items)


def _leads_there(spec: ChannelSpec, channel: PlannedChannel, environ: Mapping[str, str]) -> bool:
    """Whether a channel of the file reaches the same account by the same requests."""
    settings = {name: _plain(value, environ) for name, value in channel.settings}
    project = settings.get("project", "")
    if not any(project in path for path in spec.paths.values()) and "project" in settings:
        return False
    base_url = _plain(channel.base_url, environ).rstrip("/")
    if channel.kind and not base_url:
        base_url = _kind_base_url(KINDS[channel.kind], settings.get("region"))
    keys = tuple(_plain(key, environ) for key in channel.keys)
    headers = tuple((name, _plain(value, environ)) for name, value in channel.headers)
    return (
        spec.base_url == base_url
        and tuple(filter(None, spec.keys)) == keys
        and spec.headers == headers
        and (not channel.chat_path or spec.paths.get("chat") == channel.chat_path)
        and set(channel.protocols) & spec.protocols != set()
    )


def _kind_base_url(kind: Kind, region: str | None) -> str:
    if region is None:
        return kind.base_url
    return kind.regional.get(region) or kind.base_url.replace(REGION, region)


def _channel_lines(name: str, channel: PlannedChannel, secrets: dict[str, str]) -> list[str]:
    lines = [f"id: {writing.scalar(name)}"]
    if channel.kind:
        lines.append(f"kind: {channel.kind}")
    if channel.base_url:
        lines.append(f"base_url: {_written(channel.base_url, name, 'URL', secrets)}")
    if channel.chat_path:
        lines.append(f"paths: {{chat: {writing.scalar(channel.chat_path)}}}")
    lines += _key_lines(name, channel, secrets)
    if not channel.kind:
        lines.append("protocols: [chat]")
    for field_name, pairs in (("headers", channel.headers), ("query", channel.query)):
        if pairs:
            texts = []
            for key, value in pairs:
                label = f"{field_name}_{key}".upper().replace("-", "_")
                shown = _written(value, name, label, secrets, is_plain=field_name == "query")
                texts.append(f"{writing.scalar(key)}: {shown}")
            lines.append(f"{field_name}: {{{', '.join(texts)}}}")
    if channel.max_concurrency is not None:
        lines.append(f"max_concurrency: {channel.max_concurrency}")
    if channel.priority != 1:
        lines.append(f"priority: {channel.priority}")
    return lines


def _key_lines(name: str, channel: PlannedChannel, secrets: dict[str, str]) -> list[str]:
    """Return the lines by which a channel authenticates."""
    lines = []
    keys = [
        _written(key, name, f"KEY_{number}" if number > 1 else "KEY", secrets)
        for number, key in enumerate(channel.keys, start=1)
    ]
    auth = KINDS[channel.kind].auth if channel.kind else ""
    if keys:
        lines.append(f"api_key: {keys[0] if len(keys) == 1 else '[' + ', '.join(keys) + ']'}")
    elif not channel.kind or (auth != NO_AUTH and not proved(channel.kind)):
        lines.append(f"auth: {NO_AUTH}")
    for setting, value in channel.settings:
        lines.append(f"{setting}: {_written(value, name, setting.upper(), secrets)}")
    if channel.credentials:
        texts = [
            f"{member}: {_written(value, name, member.upper(), secrets)}"
            for member, value in channel.credentials
        ]
        lines.append(f"credentials: {{{', '.join(texts)}}}")
    if keys and auth == NO_AUTH:
        lines.append("auth: bearer")
    return lines


def _written(
    value: Value, channel_id: str, what: str, secrets: dict[str, str], *, is_plain: bool = False
) -> str:
    """Return a value as YAML; secrets and variables become references to variables."""
    if isinstance(value, str):
        return writing.scalar(value)
    if isinstance(value, Variable):
        return f'"${{{value.name}}}"'
    if is_plain:
        return writing.scalar(value.value)
    name, number = variable_name(channel_id, what), 1
    while secrets.get(name, value.value) != value.value:
        number += 1
        name = f"{variable_name(channel_id, what)}_{number}"
    secrets[name] = value.value
    return f'"${{{name}}}"'


def _models(plan: Plan, existing: Mapping[str, Any], written: Written) -> str:
    items = []
    names = set(existing)
    names.update(alias for model in existing.values() for alias in model.aliases)
    names.update(plan.models)
    for model in plan.models.values():
        if model.id in existing or any(model.id in one.aliases for one in existing.values()):
            written.kept.append(model.id)
            continue
        aliases = [one for one in dict.fromkeys(model.aliases) if one not in names]
        names.update(aliases)
        written.models.append(model.id)
        if not is_priced(model.price, model.endpoint_type):
            written.unpriced.append(model.id)
        items.append(writing.list_item(_model_lines(model, aliases, written.names)))
    return "".join(items)


def _model_lines(model: PlannedModel, aliases: list[str], names: Mapping[str, str]) -> list[str]:
    bound = [Binding(names[one.channel_id], one.upstream_model) for one in model.bindings]
    # Several channels of the plan may be one of the file.
    by_channel = {one.channel_id: one for one in reversed(bound)}
    ordered = [one for one in bound if by_channel[one.channel_id] is one]
    lines = [f"id: {writing.scalar(model.id)}", f"channels: {writing.bindings(ordered)}"]
    for name in ("endpoint_type", "context_size", "max_output_tokens"):
        value = getattr(model, name)
        if value is not None:
            lines.append(f"{name}: {value}")
    if aliases:
        lines.append(f"aliases: [{', '.join(map(writing.scalar, aliases))}]")
    if model.price is not None and is_priced(model.price, model.endpoint_type):
        lines.append(f"price: {writing.price(model.price)}{writing.remark(model.rows)}")
    else:
        lines.append("# price: not known; without one this is a fault of the configuration")
    return lines


def _check(written: Written, before: Any, environ: Mapping[str, str], source: Path) -> None:
    """Parse the new text: old items are unchanged, new ones present. Raises ConfigFaults."""
    after = load_text(written.text, environ, source=source, is_priced=False).registry
    is_kept = all(after.channels.get(one.id) == one for one in before.channels.values()) and all(
        after.models.get(one.id) == one for one in before.models.values()
    )
    has_all = set(written.channels) <= set(after.channels) and set(written.models) <= set(
        after.models
    )
    if not is_kept or not has_all:
        report = FaultReport(str(source))
        report.top().blame(
            found="a form that cannot be added to without changing what is there",
            allowed="channels and models as lists of a line or more for each item",
        )
        report.raise_if_any()


def _plain(value: Value, environ: Mapping[str, str]) -> str:
    if isinstance(value, Variable):
        return environ.get(value.name, "")
    return value.value if isinstance(value, SecretText) else value
