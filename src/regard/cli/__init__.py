"""The command line: one thin function a verb, each in its own file."""
