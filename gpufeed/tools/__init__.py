"""Commands behind the command line, each usable from Python."""
