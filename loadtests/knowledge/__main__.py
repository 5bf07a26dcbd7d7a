"""`python -m loadtests.knowledge`: imports and searches, timed."""

from loadtests.knowledge.latency import main

if __name__ == "__main__":
    main()
