"""Endpoints of models."""
