"""The parent of several processes."""
