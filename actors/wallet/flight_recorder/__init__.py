"""The flight recorder: a file that outlives its process, written by it and read by recovery."""
