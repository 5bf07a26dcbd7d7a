"""Needed by every load: processes on cores of their own, funded keys, the system's counters."""
