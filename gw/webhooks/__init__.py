"""Where operators have events sent to."""
