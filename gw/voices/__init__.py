"""Voices that accounts have cloned: which channel knows each, and by which id."""
