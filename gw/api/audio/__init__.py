"""Endpoints of speech, voices, music and spoken scripts."""
