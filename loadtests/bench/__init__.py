"""The benchmark: what a call costs, measured side by side with a bare proxy, trees and servers.

`python -m loadtests.bench` (`__main__.py`) takes pieces of work (`scenarios.py`) through a run
(`bench.py`), window by window, and writes a table (`table.py`) beside what is to be reached
(`figures.py`). `load.py` makes the load, `upstream.py` answers it, `reference.py` is the bare
proxy; `loadtests/rig` starts the processes, each on its cores.
"""
