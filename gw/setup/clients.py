"""The table of coding agents: the files of each for this gateway, and steps outside of files.

The names of files and members are those of each client's documentation; what works is in
`ops/reference/clients.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from channels import families
from gw.setup import client


def _known(**sizes: int | None) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if size is not None}


def _mcp(access: client.Access, member: str, server: Mapping[str, Any]) -> dict[str, Any]:
    return {member: {client.NAME: dict(server)}} if access.with_mcp else {}


def _claude_code(access: client.Access) -> client.ClientSetup:
    model = access.models[0].id
    env = {
        "ANTHROPIC_BASE_URL": access.url,
        "ANTHROPIC_AUTH_TOKEN": access.key,
        "ANTHROPIC_MODEL": model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": access.small_model.id,
        # A line that changes with each request would be in front of what is cached.
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    }
    server = {"type": "http", "url": f"{access.url}/mcp", "headers": access.bearer}
    files = [client.ClientFile(".claude/settings.json", "json", {"env": env})]
    if access.with_mcp:
        files.append(client.ClientFile(".claude.json", "json", _mcp(access, "mcpServers", server)))
    return client.ClientSetup(files, ["Another model within a session: `/model` and its id."])


def _codex(access: client.Access) -> client.ClientSetup:
    provider = {
        "name": "Gateway",
        "base_url": f"{access.url}/v1",
        "wire_api": "responses",
        "supports_websockets": True,
        "experimental_bearer_token": access.key,
    }
    server = {"url": f"{access.url}/mcp", "http_headers": access.bearer}
    # Codex requests web search by default, which is refused for models without it.
    values: dict[str, Any] = {
        "model": access.models[0].id,
        "model_provider": client.NAME,
        "web_search": "disabled",
    }
    sizes = _known(model_context_window=access.models[0].context_size)
    values |= {
        **sizes,
        "model_providers": {client.NAME: provider},
        **_mcp(access, "mcp_servers", server),
    }
    return client.ClientSetup(
        [client.ClientFile(".codex/config.toml", "toml", values)],
        [
            "Another model: `codex -m ID`.",
            'Web search, where a channel of the model has it: `web_search = "live"`.',
        ],
    )


def _gemini(access: client.Access) -> client.ClientSetup:
    server = {"httpUrl": f"{access.url}/mcp", "headers": access.bearer}
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "model": {"name": access.models[0].id},
        **_mcp(access, "mcpServers", server),
    }
    env = {"GEMINI_API_KEY": access.key, "GOOGLE_GEMINI_BASE_URL": access.url}
    return client.ClientSetup(
        [
            client.ClientFile(".gemini/settings.json", "json", settings),
            client.ClientFile(".gemini/.env", "env", env),
        ],
        ["Another model: `gemini -m ID`."],
    )


# opencode's packages for each protocol.
_PACKAGES = {
    families.CHAT.protocol: "@ai-sdk/openai-compatible",
    families.MESSAGES.protocol: "@ai-sdk/anthropic",
    families.RESPONSES.protocol: "@ai-sdk/openai",
    families.GEMINI.protocol: "@ai-sdk/google",
}


def _opencode(access: client.Access) -> client.ClientSetup:
    providers: dict[str, Any] = {}
    names: dict[str, str] = {}
    for model in access.models:
        protocol = access.protocols.get(model.id, (families.CHAT.protocol,))[0]
        name = client.NAME if protocol == families.CHAT.protocol else f"{client.NAME}-{protocol}"
        names[model.id] = f"{name}/{model.id}"
        version = "v1beta" if protocol == families.GEMINI.protocol else "v1"
        provider = providers.setdefault(
            name,
            {
                "npm": _PACKAGES[protocol],
                "name": f"Gateway ({families.PUBLIC_NAMES[protocol]})",
                "options": {"baseURL": f"{access.url}/{version}", "apiKey": access.key},
                "models": {},
            },
        )
        entry: dict[str, Any] = {"name": model.display_name}
        if model.context_size is not None and model.max_output_tokens is not None:
            entry["limit"] = {"context": model.context_size, "output": model.max_output_tokens}
        provider["models"][model.id] = entry
    server = {
        "type": "remote",
        "url": f"{access.url}/mcp",
        "enabled": True,
        "headers": access.bearer,
    }
    values = {
        "$schema": "https://opencode.ai/config.json",
        "provider": providers,
        "model": names[access.models[0].id],
        "small_model": names[access.small_model.id],
        **_mcp(access, "mcp", server),
    }
    return client.ClientSetup([client.ClientFile(".config/opencode/opencode.json", "json", values)])


def _cursor(access: client.Access) -> client.ClientSetup:
    server = {"url": f"{access.url}/mcp", "headers": access.bearer}
    files = [client.ClientFile(".cursor/mcp.json", "json", _mcp(access, "mcpServers", server))]
    return client.ClientSetup(
        files if access.with_mcp else (),
        [
            "Settings, Models, API Keys: switch on `Override OpenAI Base URL` and enter "
            f"{access.url}/v1",
            f"OpenAI API Key: {access.key}",
            "Add model: " + ", ".join(model.id for model in access.models),
            "Cursor's own servers call the address: it has to be public, with TLS.",
        ],
    )


def _cline(access: client.Access) -> client.ClientSetup:
    server = {
        "type": "streamableHttp",
        "url": f"{access.url}/mcp",
        "headers": access.bearer,
        "disabled": False,
    }
    path = ".cline/data/settings/cline_mcp_settings.json"
    files = [client.ClientFile(path, "json", _mcp(access, "mcpServers", server))]
    model = access.models[0]
    return client.ClientSetup(
        files if access.with_mcp else (),
        [
            f"In a terminal: cline auth -p openai -k {access.key} -b {access.url}/v1 -m {model.id}",
            "In the editor: Settings, API Provider `OpenAI Compatible`, "
            f"Base URL {access.url}/v1, API Key {access.key}, Model ID {model.id}",
        ],
    )


def _aider(access: client.Access) -> client.ClientSetup:
    settings = {
        "model": f"openai/{access.models[0].id}",
        "weak-model": f"openai/{access.small_model.id}",
        "openai-api-base": f"{access.url}/v1",
        "openai-api-key": access.key,
    }
    metadata: dict[str, Any] = {}
    for model in access.models:
        sizes = _known(
            max_input_tokens=model.context_size, max_output_tokens=model.max_output_tokens
        )
        metadata[f"openai/{model.id}"] = {**sizes, "litellm_provider": "openai", "mode": "chat"}
    return client.ClientSetup(
        [
            client.ClientFile(".aider.conf.yml", "yaml", settings),
            client.ClientFile(".aider.model.metadata.json", "json", metadata),
        ],
        ["Another model: `aider --model openai/ID`."],
    )


def _continue(access: client.Access) -> client.ClientSetup:
    models = []
    for model in access.models:
        entry: dict[str, Any] = {
            "name": f"{model.display_name} ({client.NAME})",
            "provider": "openai",
            "model": model.id,
            "apiBase": f"{access.url}/v1",
            "apiKey": access.key,
            "roles": ["chat", "edit", "apply"],
        }
        sizes = _known(contextLength=model.context_size, maxTokens=model.max_output_tokens)
        if sizes:
            entry["defaultCompletionOptions"] = sizes
        models.append(entry)
    values: dict[str, Any] = {"models": models}
    if access.with_mcp:
        values["mcpServers"] = [
            {
                "name": client.NAME,
                "type": "streamable-http",
                "url": f"{access.url}/mcp",
                "requestOptions": {"headers": access.bearer},
            }
        ]
    usual = {"name": "Gateway", "version": "1.0.0", "schema": "v1"}
    return client.ClientSetup([client.ClientFile(".continue/config.yaml", "yaml", values, usual)])


_ANY = (
    families.CHAT.protocol,
    families.MESSAGES.protocol,
    families.RESPONSES.protocol,
    families.GEMINI.protocol,
)

CLIENTS: Mapping[str, client.CodingAgent] = MappingProxyType(
    {
        "claude-code": client.CodingAgent(
            "Claude Code", (families.MESSAGES.protocol,), _claude_code
        ),
        "codex": client.CodingAgent("Codex", (families.RESPONSES.protocol,), _codex),
        "gemini": client.CodingAgent("Gemini CLI", (families.GEMINI.protocol,), _gemini),
        "opencode": client.CodingAgent("opencode", _ANY, _opencode),
        "cursor": client.CodingAgent("Cursor", (families.CHAT.protocol,), _cursor),
        "cline": client.CodingAgent("Cline", (families.CHAT.protocol,), _cline),
        "aider": client.CodingAgent("aider", (families.CHAT.protocol,), _aider),
        "continue": client.CodingAgent("Continue", (families.CHAT.protocol,), _continue),
    }
)
