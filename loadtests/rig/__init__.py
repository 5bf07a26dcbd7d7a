"""What every load needs: processes on cores of their own, funded keys, and what the system says."""
