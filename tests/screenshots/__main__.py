"""Every page of the console as a picture, light and dark: `python -m tests.screenshots FOLDER`.

A gateway with the demo's models and one channel that fails, some minutes of an operator's work, and
calls of every kind that go on while Chromium draws. Pages are those of `ops@gateway`: what they say
of this machine (its folder, its free ports) is replaced on their way to the browser.
"""

import argparse
import copy
import itertools
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import patch

import yaml
from playwright.sync_api import Browser, Page, Route, sync_playwright

from gw.demo.agent import PROJECT, SYSTEM_PROMPT
from gw.demo.configuration import CONFIGURATION, MEDIA
from gw.demo.summary import ASK, CALLS, CHAT, MCP_CALLS, MEDIA_CALLS, calls_of_reference
from gw.keys.views import Viewer
from loadtests.rig.client import Client
from loadtests.rig.deployment import A_KNOWN_PORT, Deployment, channel, deployment
from loadtests.rig.folders import temporary_folder
from loadtests.rig.postgres import running_postgres
from loadtests.rig.waiting import PATIENCE_SECONDS
from tests.support.console import CHROMIUM, CHROMIUM_FLAGS, link

LIVE_SECONDS = 90  # what the overview's lines show
WIDTH, HEIGHT = 1120, 720
CALLERS = 3
PAUSE_SECONDS = 0.2  # of each, between two calls
NEUTRAL_LISTENS = {
    "listen": "127.0.0.1:8080",
    "admin_listen": "127.0.0.1:9090",
    "console_listen": "127.0.0.1:9080",
}
PAGES = {
    "accounts": "/accounts",
    "account": "/accounts/ACCOUNT",
    "keys": "/accounts/ACCOUNT/keys",
    "key": "/accounts/ACCOUNT/keys/KEY",
    "budgets": "/accounts/ACCOUNT/budgets",
    "budget": "/accounts/ACCOUNT/budgets/BUDGET",
    "account-calls": "/accounts/ACCOUNT/calls",
    "calls": "/calls",
    "call": "/calls/CALL",
    "channels": "/channels",
    "models": "/models",
    "playground": "/playground?account=ACCOUNT",
    "agents": "/agents",
    "bases": "/bases",
    "tasks": "/tasks",
    "requests": "/requests",
    "tokens": "/tokens",
    "system": "/system",
    "events": "/events",
    "audit": "/audit",
    "sessions": "/sessions",
}


def settings() -> dict[str, Any]:
    """The demo's models and channels, and a channel before them that will fail."""
    places = dict.fromkeys(("command", "path", "upstream"), "")
    ports = dict.fromkeys(("port", "admin_port", "console_port"), 0)
    made = yaml.safe_load(CONFIGURATION.format(media=MEDIA, **places, **ports))
    channels = [
        channel(
            one["id"], **{name: one[name] for name in one.keys() - {"id", "api_key", "base_url"}}
        )
        for one in made["channels"]
    ]
    channels.append(channel("simulator-c", priority=0, health={"failures": 3, "cooldown": 60}))
    for one in made["models"]:
        if one["id"] == "demo-large":
            one["channels"] = ["simulator-c", *one["channels"]]
    kept = {name: made[name] for name in ("models", "tasks", "media_store")}
    listens = dict.fromkeys(NEUTRAL_LISTENS, A_KNOWN_PORT)
    return {**kept, **listens, "channels": channels}


@dataclass(frozen=True)
class Scene:
    """What the pages show: an account, its key and budget, an agent's key, a failed-over call."""

    account: str
    key_id: str
    client: Client
    agent: Client
    call: str
    budget: str


def prepared(h: Deployment, folder: Path) -> Scene:
    """What operators and owners have done before the pictures."""
    account, rest = h.gw("account", "create", "Harbour office", "--credit-usd", "5000")["id"], []
    for name, *more in (
        ("Night desk", "--trial", "--rpm", "60"),
        ("Lighthouse", "--credit-usd", "25", "--concurrency", "8"),
    ):
        rest.append(h.gw("account", "create", name, *more)["id"])
    of = ("--account", account)
    key = h.gw("key", "create", *of, "--name", "desk", "--account-logs")
    for name, *more in (
        ("laptop", "--spend-cap-usd", "20", "--allow", "demo-small"),
        ("night batch", "--expires", "2031-01-01T00:00:00Z"),
        ("old phone",),
    ):
        made = h.gw("key", "create", *of, "--name", name, *more)
    h.gw("key", "disable", made["id"])
    (folder / "pages").mkdir()
    for file in PROJECT.glob("ops/runbooks/*.md"):
        shutil.copy(file, folder / "pages")
    h.gw("kb", "import", *of, "--kb", "runbooks", str(folder / "pages"))
    (folder / "prompt").write_text(SYSTEM_PROMPT, encoding="utf-8")
    persona = ("--name", "Watch", "--system-prompt", str(folder / "prompt"), "--kb", "runbooks")
    agent = h.gw("agent", "create", *of, *persona, "--model", "demo-large")["id"]
    speaks = h.gw("key", "create", *of, "--name", "watch", "--kind", "agent", "--agent", agent)
    wish = ("--name", "evening watch", "--requested-by", "ann", "--spend-cap-usd", "5")
    h.gw("key", "request", *of, "--agent", agent, *wish)
    for name, scope in (("billing", "write"), ("reports", "read")):
        h.gw("admin", "token", "create", "--name", name, "--scope", scope)
    h.gw("account", "correct", rest[1], "-1.5", "--reason", "paid twice")
    h.verify()
    h.upstream.fault("simulator-a", delay_headers_ms=90, delay_event_ms=8, task_seconds=4)
    h.upstream.fault("simulator-b", delay_headers_ms=140, task_seconds=4)
    h.upstream.fault("simulator-c", status=503, message="overloaded")
    client = Client(h.gateway.url, key["key"])
    call = str(h.row(client.chat(**talk(60)).trace)["id"])
    budget = budgets(h, account, agent)
    return Scene(account, key["id"], client, Client(h.gateway.url, speaks["key"]), call, budget)


def budgets(h: Deployment, account: str, agent: str) -> str:
    """Limits of every kind, some of them nearly used up; the id of the one of each user."""
    ids = {}
    for name, scope, subject, limit, period, *more in (
        ("All of it", "account", "", "400", "month", "--time-zone", "Europe/Berlin"),
        ("A day of small talk", "model", "demo-small", "0.02", "day"),
        ("The watch", "agent", agent, "5", "week"),
        ("Each desk", "every_user", "", "2", "day", "--warn-at", "50", "--warn-at", "90"),
        ("Films", "label", "team=films", "25", "total", "--action", "warn"),
    ):
        words = ("--name", name, "--scope", scope, "--limit-usd", limit, "--period", period, *more)
        whose = ("--subject", subject) if subject else ()
        ids[scope] = h.gw("budget", "create", "--account", account, *words, *whose)["id"]
    return str(ids["every_user"])


def talk(chars: int, **more: Any) -> dict[str, Any]:
    """A chat of which most comes from the cache."""
    usage = {"input": 40 * chars, "cached": 30 * chars, "output": chars}
    return {
        "model": "demo-large",
        "stream": True,
        "sim": {"chars": 4 * chars, "usage": usage},
    } | more


def requests(scene: Scene) -> Iterator[Callable[[], object]]:
    """One round of calls of every kind, most of them chat; some are refused."""
    client, known = scene.client, calls_of_reference()

    def posted(path: str, body: Any, who: Client = client) -> Callable[[], object]:
        return partial(who.send, "POST", path, body)

    film, body = known["a film"]
    dark = copy.deepcopy(body)
    dark["content"][0]["text"] = '[[sim {"task_error": "The picture is too dark."}]]'
    seldom = [
        *(posted(*known[one]) for one in MEDIA_CALLS),
        posted(film, dark),
        *(posted(*known[one]) for one in MCP_CALLS),
        posted(CHAT, ASK, scene.agent),
    ]
    failing = itertools.cycle(
        (
            partial(client.chat, model="demo-none"),
            partial(client.chat, **talk(60, sim={"cut_after_events": 9})),
            partial(client.chat, model="demo-small", sim={"status": 500}),
        )
    )
    for call, failed in zip(seldom, failing, strict=False):
        yield call
        yield from (posted(*known[one]) for one in CALLS)
        for chars in (30, 80, 150):
            yield partial(client.chat, **talk(chars))
            yield partial(client.chat, **talk(chars, model="demo-small"))
        yield failed


@contextmanager
def load(scene: Scene) -> Iterator[None]:
    """Calls that go on until the end of the block; each caller begins elsewhere in the round."""
    done, calls = Event(), list(requests(scene))

    def run(number: int) -> None:
        first = number * len(calls) // CALLERS
        for call in itertools.islice(itertools.cycle(calls), first, None):
            call()
            if done.wait(PAUSE_SECONDS):
                return

    with ThreadPoolExecutor(CALLERS) as pool:
        running = [pool.submit(run, number) for number in range(CALLERS)]
        try:
            yield
        finally:
            done.set()
        for one in running:
            one.result()


@dataclass(frozen=True)
class Painter:
    """Draws pages of one console into a folder."""

    browser: Browser
    folder: Path
    names: Mapping[str, str]  # what the machine calls things, and what the pictures do
    size: tuple[int, int]

    def opened(self, url: str, scheme: Any) -> Page:
        """A link's page, in a browser of its own."""
        width, height = self.size
        context = self.browser.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": height},
            locale="en-GB",
            timezone_id="UTC",
        )
        context.set_default_timeout(PATIENCE_SECONDS * 1000)
        context.route("**", lambda route: self._neutral(route))
        page = context.new_page()
        page.goto(url)
        return page

    def draw(self, page: Page, name: str, scheme: str) -> None:
        """Write a picture of what the page shows."""
        path = self.folder / f"{name}-{scheme}.png"
        page.screenshot(path=path)
        print(path)

    def _neutral(self, route: Route) -> None:
        """Let a page pass under neutral names, and everything else as it is."""
        request = route.request
        if request.resource_type != "document" or request.method != "GET":
            route.continue_()
            return
        response = route.fetch()
        text = response.text()
        for here, neutral in self.names.items():
            text = text.replace(here, neutral)
        route.fulfill(response=response, body=text)


def draw(painter: Painter, h: Deployment, scene: Scene, seconds: float) -> None:
    """Draw everything, the overview after some time."""
    base, _, _ = link(h).partition("/sign-in/")
    places = {
        "ACCOUNT": scene.account,
        "KEY": scene.key_id,
        "CALL": scene.call,
        "BUDGET": scene.budget,
    }
    schemes = ("light", "dark")
    operators = {scheme: painter.opened(link(h), scheme) for scheme in schemes}
    owner = ("--account", scene.account)
    owners = {scheme: painter.opened(link(h, *owner), scheme) for scheme in schemes}
    for scheme, page in operators.items():
        painter.draw(page, "sign-in", scheme)
    for page in (*operators.values(), *owners.values()):
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("live", exact=True).wait_for()
    operators["light"].wait_for_timeout(seconds * 1000)
    for scheme in schemes:
        painter.draw(operators[scheme], "overview", scheme)
        painter.draw(owners[scheme], "owner", scheme)
    for (name, path), scheme in itertools.product(PAGES.items(), schemes):
        page = operators[scheme].context.new_page()
        for place, found in places.items():
            path = path.replace(place, found)
        page.goto(base + path)
        if name == "playground":
            page.get_by_role("button", name="Send").click()
            page.locator("#play-cost a").wait_for()
        painter.draw(page, name, scheme)
        page.close()


def main() -> int:
    """Draw them; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--width", type=int, default=WIDTH, help="in pixels")
    parser.add_argument("--height", type=int, default=HEIGHT, help="in pixels")
    parser.add_argument("--seconds", type=float, default=LIVE_SECONDS, help="of live figures")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    operator = patch.object(Viewer, "of_this_process", return_value=Viewer("ops", "gateway"))
    with (
        operator,
        temporary_folder() as folder,
        running_postgres(folder / "postgres") as postgres,
        postgres.database() as url,
        deployment(url, folder, is_funded=False, **settings()) as h,
    ):
        scene = prepared(h, folder)
        names = {h.settings[key]: neutral for key, neutral in NEUTRAL_LISTENS.items()}
        names[str(folder)] = "/var/lib/model-gateway"
        with load(scene), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
            painter = Painter(browser, options.folder, names, (options.width, options.height))
            draw(painter, h, scene, options.seconds)
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
