"""Client set-up: a client's own files, and a first call by each official library."""

from __future__ import annotations

from gw.console.pages import ConsoleHandler
from gw.keys.key import KeyRecord
from gw.setup.client import NO_KEY, Access, ClientSetup, models_for
from gw.setup.clients import CLIENTS


def public_url(handler: ConsoleHandler) -> str:
    """Return the configured address for clients, else the gateway's own."""
    configured = handler.services.current.config.public_url
    return configured or handler.services.gateway_url()


def setups(handler: ConsoleHandler, key: KeyRecord, text: str | None) -> list[tuple[str, str]]:
    """Return title and text for each client, with the address, the key's models and its text."""
    url, shown = public_url(handler), text or NO_KEY
    allowed = key.allowed_models
    current = handler.services.current
    translations = current.config.translations
    models = current.registry.models.values()
    chat = [
        one
        for one in models
        if one.callable and one.endpoint_type is None and (allowed is None or one.id in allowed)
    ]
    found = []
    for client in CLIENTS.values():
        able, protocols = models_for(client, chat, current.registry, translations)
        if able:
            access = Access(url=url, key=shown, models=able, protocols=protocols)
            found.append((client.title, _lines(client.setup(access))))
    return found + libraries(url, shown, chat[0].id if chat else "MODEL")


def _lines(setup: ClientSetup) -> str:
    files = [f"# ~/{file.path}\n{file.text.rstrip()}" for file in setup.files]
    return "\n\n".join([*files, *setup.steps])


def libraries(url: str, key: str, model: str) -> list[tuple[str, str]]:
    """Return a first call by each official library and by curl, as title and text."""
    return [
        (
            "openai (Python)",
            f'from openai import OpenAI\n\nclient = OpenAI(base_url="{url}/v1", api_key="{key}")\n'
            f'reply = client.chat.completions.create(\n    model="{model}",\n'
            '    messages=[{"role": "user", "content": "Hello"}],\n)\n'
            "print(reply.choices[0].message.content)",
        ),
        (
            "anthropic (Python)",
            f'from anthropic import Anthropic\n\nclient = Anthropic(base_url="{url}",'
            f' auth_token="{key}")\nreply = client.messages.create(\n    model="{model}",\n'
            '    max_tokens=500,\n    messages=[{"role": "user", "content": "Hello"}],\n)\n'
            "print(reply.content[0].text)",
        ),
        (
            "google-genai (Python)",
            "from google import genai\n\nclient = genai.Client(\n"
            f'    api_key="{key}", http_options={{"base_url": "{url}"}}\n)\n'
            f'reply = client.models.generate_content(model="{model}", contents="Hello")\n'
            "print(reply.text)",
        ),
        (
            "curl",
            f"curl {url}/v1/chat/completions -H 'Authorization: Bearer {key}' \\\n"
            "  -H 'Content-Type: application/json' \\\n"
            f'  -d \'{{"model": "{model}",'
            ' "messages": [{"role": "user", "content": "Hello"}]}\'',
        ),
    ]
