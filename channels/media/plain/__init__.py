"""The plain wire: an upstream with this gateway's own client API, usually another gateway."""
