"""Work on large bodies in separate processes, because it would block the event loop.

`channels/json/weight.py` decides which bodies are large, `jobs.py` has the work done there (and for
ordinary bodies in the loop), `process.py` is one such process and `pool.py` the pool of them.
"""

from __future__ import annotations
