"""Makes `python -m gw` equivalent to the command `gw`."""

from __future__ import annotations

from gw.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
