"""The demo of the whole gateway on one machine."""
