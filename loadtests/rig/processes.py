"""The processes of a deployment: the simulator, a gateway, commands of the command line.

Each is started as a user would start it.
"""

import io
import json
import os
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from gw.cli.main import main
from loadtests.rig.process import Process
from loadtests.rig.site import ANYWHERE, OWN, Site, Tree


class SimulatorProcess(Process):
    """The upstream simulator as a process of its own."""

    def __init__(
        self,
        *more: str,
        seed: int = 7,
        port: int = 0,
        site: Site = ANYWHERE,
        is_heard: bool = False,
    ) -> None:
        arguments = ["loadtests.simulator", "--port", str(port), "--seed", str(seed), *more]
        super().__init__(site.module(arguments), site=site, is_heard=is_heard)
        self.url = self.ready()["listen"]


class GatewayProcess(Process):
    """A gateway as `gw serve` starts it."""

    def __init__(
        self,
        config: Path,
        *,
        processes: int = 1,
        environ: Mapping[str, str] | None = None,
        site: Site = ANYWHERE,
        is_heard: bool = False,
    ) -> None:
        command = site.module(serve(config, processes))
        super().__init__(command, environ=environ, site=site, is_heard=is_heard)
        ready = self.ready()
        self.url, self.admin_url = ready["listen"], ready["admin"]


def serve(config: Path, processes: int = 1) -> list[str]:
    """The arguments with which a gateway is started."""
    several = ["--processes", str(processes)] if processes != 1 else []
    return ["gw", "serve", "--config", str(config), *several]


class CommandFailed(AssertionError):
    """A command of the CLI ended with another code than 0."""

    def __init__(self, code: int, response: Any, stderr: str) -> None:
        super().__init__(f"exit {code}: {response} {stderr}")
        self.code = code
        self.answer = response
        self.stderr = stderr


def gw(
    config: Path, *arguments: str, own: Tree = OWN, environ: Mapping[str, str] | None = None
) -> Any:
    """Run one command of the CLI with `--json`; return its object. Raises CommandFailed.

    In this process, because to start an interpreter takes longer than what most commands do; in one
    of its own where another tree's command is meant (by $PYTHONPATH, too) or another environment,
    and for `serve`, which handles the signals of a process.
    """
    command = [*arguments, "--config", str(config.resolve()), "--json"]
    is_other = own is not OWN or environ or "PYTHONPATH" in os.environ
    if is_other or arguments[0] == "serve":
        site = Site(own)
        done = subprocess.run(
            site.module(["gw", *command]),
            capture_output=True,
            text=True,
            check=False,
            cwd=site.folder,
            env={**os.environ, **(environ or {})},
        )
        code, printed, complaint = done.returncode, done.stdout, done.stderr
    else:
        out, err = io.StringIO(), io.StringIO()
        # In a thread, where the loop that a test may be running does not forbid it its own.
        with redirect_stdout(out), redirect_stderr(err), ThreadPoolExecutor(1) as pool:
            code = pool.submit(main, command).result()
        printed, complaint = out.getvalue(), err.getvalue()
    response = json.loads(printed) if printed.strip() else None
    if code:
        raise CommandFailed(code, response, complaint)
    return response
