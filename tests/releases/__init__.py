"""Databases as each release left them, and how they are made."""
