"""Copies of results, without a database."""
