"""Agents: personas with a model and knowledge bases, which keys speak for."""
