"""Endpoints of the chat protocols."""
