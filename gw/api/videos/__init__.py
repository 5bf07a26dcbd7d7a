"""Endpoints of videos, avatars and templates."""
