"""`POST /mcp`: its handler, and the six tools over knowledge bases."""
