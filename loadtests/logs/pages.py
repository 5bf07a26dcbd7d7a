"""Times every page of the console over a database that `fill.py` has filled.

A gateway runs on the folder's database with its console on; each page is opened as an operator and
as the owner of the account that has nine rows in ten. CPU is that of the gateway's process.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from html import unescape
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener

ROUNDS = 5
SECONDS = 120
CONFIGURATION = """\
listen: 127.0.0.1:18080
admin_listen: 127.0.0.1:19090
console_listen: 127.0.0.1:19080
data_dir: .
channels: []
models: []
"""
ACCOUNT = "/accounts/acct_0"
TRACE = "0000000000000000000000000000c351"  # of the 50,001st row
PATHS = (
    "/",
    "/accounts",
    ACCOUNT,
    f"{ACCOUNT}/keys",
    f"{ACCOUNT}/keys/key_0",
    f"{ACCOUNT}/calls",
    f"{ACCOUNT}/calls?period=all",
    f"{ACCOUNT}/calls?status=error",
    f"{ACCOUNT}/calls?model=rare-model&period=all",
    f"{ACCOUNT}/calls?key_id=key_4",
    "/calls",
    "/channels",
    "/models",
    "/playground",
    "/requests",
    "/tokens",
    "/system",
    "/agents",
    "/bases",
    "/tasks",
    "/audit",
    "/sessions",
    f"/search?q={TRACE}",
    f"{ACCOUNT}/statement.csv?period=today",
)
OWNER_PATHS = ("/", ACCOUNT, f"{ACCOUNT}/calls", "/audit")


def time_pages(folder: Path) -> None:
    """Start a gateway on the folder, open every page some times, print what each took."""
    config = folder / "gw.yaml"
    config.write_text(CONFIGURATION, encoding="utf-8")
    command = [sys.executable, "-m", "gw"]
    gateway = subprocess.Popen(
        [*command, "serve", "--config", str(config)], stderr=subprocess.PIPE, text=True
    )
    try:
        assert gateway.stderr is not None
        while not gateway.stderr.readline().startswith("ready "):
            if gateway.poll() is not None:
                raise SystemExit("the gateway did not start")
        base, operator = _sign_in(config, "--operator")
        print(f"{'page':50} {'first ms':>9} {'then ms':>9} {'CPU ms':>8} {'kB':>6}")
        for path in PATHS:
            _report(operator, base, path, gateway.pid)
        listed = _open(operator, f"{base}{ACCOUNT}/calls?period=all").decode()
        for pattern in (r'href="(/calls/\d+)"', r'href="([^"]*cursor=[^"]*)"'):
            for path in re.findall(pattern, listed)[:1]:
                _report(operator, base, unescape(path), gateway.pid)
        base, owner = _sign_in(config, "--account", ACCOUNT.rpartition("/")[2])
        for path in OWNER_PATHS:
            _report(owner, base, path, gateway.pid, whose=" (owner)")
    finally:
        gateway.terminate()
        gateway.wait()


def _sign_in(config: Path, *whom: str) -> tuple[str, OpenerDirector]:
    """The console's address, and a browser that has signed in."""
    command = [sys.executable, "-m", "gw", "console", "link", *whom]
    made = subprocess.run(
        [*command, "--config", str(config), "--json"], check=True, capture_output=True
    )
    url = json.loads(made.stdout)["url"]
    web = build_opener(HTTPCookieProcessor(CookieJar()))
    with web.open(Request(url, method="POST"), timeout=SECONDS):
        return url.partition("/sign-in")[0], web


def _report(web: OpenerDirector, base: str, path: str, pid: int, *, whose: str = "") -> None:
    times, page = [], b""
    before = _cpu_seconds(pid)
    for _ in range(ROUNDS):
        began = time.perf_counter()
        page = _open(web, base + path)
        times.append((time.perf_counter() - began) * 1000)
    cpu_ms = (_cpu_seconds(pid) - before) * 1000 / ROUNDS
    shown = path.partition("cursor=")[0] + whose
    print(f"{shown:50} {times[0]:9.1f} {min(times):9.1f} {cpu_ms:8.1f} {len(page) / 1000:6.1f}")


def _open(web: OpenerDirector, url: str) -> bytes:
    with web.open(url, timeout=SECONDS) as response:
        page: bytes = response.read()
        return page


def _cpu_seconds(pid: int) -> float:
    """Of a process: its own time and the system's for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
