"""Execution of the runs of a study: local processes or a Ray cluster."""
