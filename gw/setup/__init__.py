"""The set-up of coding agents: the files by which they use this gateway."""
