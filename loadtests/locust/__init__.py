"""Load on a gateway, judged: users of many accounts, in the shape of a ramp, a spike or a soak.

`python -m loadtests.locust` (or `ops/load`) starts what is needed and runs locust as a process of
its own, because importing it replaces sockets, threads and more in the importing process. Of the
files here only `users.py` imports it, and no module imports that. How to run and read it is in
`loadtests/README.md`.
"""
