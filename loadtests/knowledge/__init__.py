"""How well and how fast knowledge bases are searched."""
