"""The benchmark: what one call costs in CPU, measured side by side with another server.

`python -m loadtests.bench` (see `__main__.py`) starts a gateway, the simulator and a load generator
on disjoint cores where it can. CPU time is read from the operating system; requests per second say
something only where a core is saturated.
"""
