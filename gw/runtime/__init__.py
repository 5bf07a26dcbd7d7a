"""A running process: its objects, and what it does beside its requests."""
