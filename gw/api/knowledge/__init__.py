"""Endpoints of knowledge bases."""
