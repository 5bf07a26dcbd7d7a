"""The demonstration: simulator, database, gateway, a funded account, in one process tree."""
