"""The console in a browser: the journey of a new user, what axe finds, what a script could do."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
import requests
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from loadtests.rig.deployment import A_KNOWN_PORT, Deployment
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import PATIENCE_SECONDS, until
from tests.acceptance.common import SETTINGS as COMMON
from tests.support.console import CHROMIUM, CHROMIUM_FLAGS, link

pytestmark = pytest.mark.long

NASTY = '"><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}'
SETTINGS: dict[str, Any] = {**COMMON, "console_listen": A_KNOWN_PORT}


@pytest.fixture
def stranger(h: Deployment, tenant: Tenant) -> Tenant:
    """A key whose names are what a stranger might try."""
    key = h.another(tenant, name=NASTY)
    h.agent(tenant, name=NASTY, system_prompt=NASTY)
    return key


@pytest.fixture
def browser(stranger: Tenant) -> Iterator[Browser]:
    """Chromium; accounts and keys are made before its event loop runs."""
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield made
        made.close()


class Watched:
    """A page whose console and dialogs are watched: neither says anything."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE_SECONDS * 1000)
        self.page = self.context.new_page()
        self.heard: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("dialog", self._dismiss)
        self.page.on("pageerror", lambda error: self.heard.append(str(error)))
        self.page.on("console", lambda message: self._hear(message.type, message.text))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def _dismiss(self, dialog: Dialog) -> None:
        self.heard.append(dialog.message)
        dialog.dismiss()

    def _hear(self, kind: str, text: str) -> None:
        if kind == "error" and "Failed to load resource" not in text:
            self.heard.append(text)

    def sign_in(self, url: str) -> str:
        """Open a link and press its button; the console's address."""
        self.page.goto(url)
        self.page.get_by_role("button", name="Sign in").press("Enter")
        self.page.wait_for_url("**/")
        return url.partition("/sign-in")[0]


def axe_faults(page: Page) -> list[str]:
    """What axe finds on a page."""
    found = Axe().run(page).response["violations"]
    return [f"{page.url}: {one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]


def test_a_new_user_makes_a_key_uses_it_and_sees_where_the_money_went(
    h: Deployment, tenant: Tenant, browser: Browser
) -> None:
    watched = Watched(browser)
    page, base = watched.page, watched.sign_in(link(h, "--account", tenant.account))
    page.get_by_role("link", name="Keys", exact=True).click()
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make key").click()
    key = page.locator("#secret").inner_text()
    assert f'base_url="{h.gateway.url}/v1", api_key="{key}"' in page.content().replace(
        "&quot;", '"'
    )
    client = openai.OpenAI(base_url=f"{h.gateway.url}/v1", api_key=key, max_retries=0)
    page.goto(f"{base}/")
    page.get_by_text("live", exact=True).wait_for()

    def moved() -> bool:
        client.chat.completions.create(
            model="sim-model", messages=[{"role": "user", "content": "Hello"}]
        )
        page.wait_for_timeout(200)
        return page.locator("#v-calls").inner_text() != "0.0"

    until(moved, what="an overview that moves")
    raw = client.chat.completions.with_raw_response.create(
        model="sim-model", messages=[{"role": "user", "content": "Hello"}]
    )
    trace = raw.headers["x-gateway-trace"]
    row = h.row(trace)
    page.get_by_role("searchbox").fill(trace)
    page.get_by_role("searchbox").press("Enter")
    page.get_by_text("The sum is what was charged.").wait_for()
    total = page.locator("#total").inner_text().strip()
    assert round(float(total) * 1e9) == row["cost_nano_usd"] > 0
    assert f"{row['cost_nano_usd'] / 1e9:.9f}".rstrip("0") in page.locator(".sum").inner_text()
    page.get_by_role("link", name="Keys", exact=True).click()
    page.get_by_role("link", name="laptop").click()
    page.get_by_label("Type laptop to revoke it for good").fill("laptop")
    page.get_by_role("button", name="Revoke").click()
    page.get_by_text("revoked").first.wait_for()
    with pytest.raises(openai.AuthenticationError):
        client.chat.completions.create(
            model="sim-model", messages=[{"role": "user", "content": "Hello"}]
        )
    assert not watched.heard
    assert watched.hosts == {base.partition("//")[2]}  # nothing of another host
    watched.context.close()


def test_the_reference_is_drawn_from_local_files(
    h: Deployment, tenant: Tenant, browser: Browser
) -> None:
    watched = Watched(browser)
    page, base = watched.page, watched.sign_in(link(h, "--account", tenant.account))
    page.goto(f"{base}/playground")
    page.get_by_role("link", name="Every endpoint is in the reference.").click()
    page.locator(".opblock").first.wait_for()
    address = f"{h.gateway.url}/openapi.json"
    described = requests.get(address, timeout=PATIENCE_SECONDS).json()
    operations = sum(len(methods) for methods in described["paths"].values())
    assert page.locator(".opblock").count() == operations
    page.locator("#operations-Chat-create_chat_completion button").first.click()
    page.get_by_text("need stream: true").first.wait_for()
    assert page.get_by_role("button", name="Try it out").count() == 0
    assert not watched.heard
    assert watched.hosts == {base.partition("//")[2]}
    watched.context.close()


LINES_OF_IDS = "[...document.querySelectorAll('td code')].map((one) => one.getClientRects().length)"
ID_LINES_MAX = 3
PATHS = (
    "/",
    "/accounts",
    "/accounts/ACCOUNT",
    "/accounts/ACCOUNT/keys",
    "/accounts/ACCOUNT/keys/KEY",
    "/accounts/ACCOUNT/budgets",
    "/accounts/ACCOUNT/usage",
    "/accounts/ACCOUNT/budgets/BUDGET",
    "/accounts/ACCOUNT/calls",
    "/calls",
    "/calls/CALL",
    "/channels",
    "/models",
    "/playground",
    "/requests",
    "/tokens",
    "/system",
    "/agents",
    "/bases",
    "/tasks",
    "/events",
    "/webhooks",
    "/webhooks/WEBHOOK",
    "/audit",
    "/sessions",
    "/nowhere",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_pages_fit_a_phone(
    h: Deployment, tenant: Tenant, browser: Browser, scheme: str
) -> None:
    trace = tenant.client.chat().trace
    words = ["--name", "all", "--scope", "account", "--limit-usd", "5", "--period", "month"]
    names = {
        "ACCOUNT": tenant.account,
        "KEY": tenant.key_id,
        "CALL": str(h.row(trace)["id"]),
        "BUDGET": h.gw("budget", "create", "--account", tenant.account, *words)["id"],
    }
    address = ["--url", "https://localhost:1/" + "hook" * 30, "--type", "balance.low"]
    names["WEBHOOK"] = h.gw("webhook", "create", *address)["id"]
    url = link(h)
    watched = Watched(browser, color_scheme=scheme)
    watched.page.goto(url)
    faults = axe_faults(watched.page)
    base = watched.sign_in(url)
    for path in PATHS:
        for mark, name in names.items():
            path = path.replace(mark, name)
        watched.page.set_viewport_size({"width": 1280, "height": 800})
        watched.page.goto(base + path)
        faults += axe_faults(watched.page)
        watched.page.set_viewport_size({"width": 360, "height": 740})
        width = watched.page.evaluate("document.documentElement.scrollWidth")
        if width > 360:
            faults.append(f"{path} is {width} pixels wide on a phone")
        lines = watched.page.evaluate(LINES_OF_IDS)
        if max(lines, default=0) > ID_LINES_MAX:
            faults.append(f"{path} breaks an id into {max(lines)} lines")
    assert not faults, "\n".join(faults)
    assert not watched.heard
    watched.context.close()


def test_text_of_strangers_stays_text(
    h: Deployment, tenant: Tenant, stranger: Tenant, browser: Browser
) -> None:
    """Names, models, error texts, what an upstream writes, what the playground shows."""
    key = stranger
    h.upstream.fault(status=400, body={"error": {"message": NASTY, "code": NASTY}})
    refused = key.client.chat(model="sim-model").trace
    h.upstream.reset()
    unknown = key.client.chat(model=NASTY).trace
    rows = [h.row(trace)["id"] for trace in (refused, unknown)]
    watched = Watched(browser)
    page, base = watched.page, watched.sign_in(link(h))
    account = f"/accounts/{tenant.account}"
    for path in (
        *(f"/calls/{row}" for row in rows),
        *("/calls", "/agents", "/events", "/audit", "/playground", account, f"{account}/calls"),
        *(
            f"{account}/keys",
            f"{account}/keys/{key.key_id}",
            f"{account}/budgets",
            f"{account}/usage",
        ),
        f"/search?q={NASTY}",
        f"/accounts?q={NASTY}",
    ):
        page.goto(base + path)
        assert page.locator("img, main script").count() == 0, path
        assert "49" not in page.locator("h1").inner_text()
    page.goto(f"{base}/playground?account={tenant.account}")
    page.get_by_label("Prompt").fill(NASTY)
    page.get_by_role("button", name="Send").click()
    page.locator("#play-cost a").wait_for()
    assert page.locator("#play-text img, #play-raw img").count() == 0
    assert page.locator("#play-raw").inner_text()
    assert not watched.heard
    watched.context.close()


def test_the_keyboard_alone_gets_everywhere(
    h: Deployment, tenant: Tenant, browser: Browser
) -> None:
    watched = Watched(browser)
    page = watched.page
    watched.sign_in(link(h, "--account", tenant.account))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.textContent.trim()"))
        assert page.evaluate(
            "getComputedStyle(document.activeElement).outlineStyle != 'none'"
            " || document.activeElement === document.body"
        )
    assert {"Overview", "Keys", "Calls", "Playground", "Sign out"} <= seen
    watched.context.close()
