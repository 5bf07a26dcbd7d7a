"""A running gateway with all it stands on, and its clients: of every load, and of tests."""
