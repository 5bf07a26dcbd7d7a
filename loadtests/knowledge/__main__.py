"""How fast bases are searched (`latency`) and how well (`relevance`)."""

import argparse
import asyncio

from loadtests.knowledge import latency, relevance


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m loadtests.knowledge", description=__doc__)
    parts = parser.add_subparsers(required=True)
    for part in (latency, relevance):
        part.add_options(parts.add_parser(part.__name__.rpartition(".")[2], help=part.__doc__))
    options = parser.parse_args()
    asyncio.run(options.run(options))


main()
