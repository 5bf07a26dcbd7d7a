"""Endpoints of images."""
