"""The Model Context Protocol without HTTP and without tools."""
