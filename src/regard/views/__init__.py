"""Records drawn as tables, figures and pages.

This room reads records: it neither computes nor trains.
"""
