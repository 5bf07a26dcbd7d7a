"""Every dashboard as a picture, after mixed load with faults: `python -m tests.boards FOLDER`.

A gateway of two processes, calls of every family with faults among them, the real Prometheus with
the shipped rules, and Chromium. It is for a person to look at after a change of a board: does a
healthy panel say so, does a fault show, can the lines be told apart?
"""

import argparse
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from loadtests.rig.deployment import deployment
from loadtests.rig.folders import temporary_folder
from loadtests.rig.postgres import running_postgres
from tests.acceptance.every_family import SETTINGS, call_everything, callers
from tests.acceptance.test_dashboards import PROCESSES, Prometheus, running_prometheus
from tests.support.boards import COLUMN_PIXELS, Board, Series
from tests.support.console import CHROMIUM, CHROMIUM_FLAGS
from tests.support.monitoring import DASHBOARDS, as_run

ROUNDS = 12
STEP_SECONDS = 2


def main() -> int:
    """Draw them; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.boards", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of calls of every family")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with (
        temporary_folder() as folder,
        running_postgres(folder / "postgres") as postgres,
        postgres.database() as url,
        deployment(url, folder, processes=PROCESSES, **SETTINGS) as h,
        running_prometheus(folder / "monitoring", h.gateway.admin_url) as prometheus,
    ):
        who = callers(h, folder)
        for number in range(options.rounds):
            call_everything(h, who, number=number)
            prometheus.scraped()
        draw(prometheus, options.folder)
    return 0


def draw(prometheus: Prometheus, folder: Path) -> None:
    """Write a picture of each board into the folder."""
    end = time.time()

    def found(expression: str) -> Series:
        return prometheus.over(as_run(expression), end - 300, end, STEP_SECONDS)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        page = browser.new_page(viewport={"width": 24 * COLUMN_PIXELS, "height": 800})
        for name, board in DASHBOARDS.items():
            page.set_content(Board(board, found).page())
            path = folder / f"{name}.png"
            page.screenshot(path=path, full_page=True)
            print(path)
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
