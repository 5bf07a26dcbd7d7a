"""The wires the simulator speaks, one file each: how a request reads and an answer is written."""
