"""Measure both clients: `python -m loadtests.http2`. See the package for what it needs."""

from loadtests.http2.measure import main

if __name__ == "__main__":
    main()
