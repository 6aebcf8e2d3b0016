"""Variants trained under one budget are compared: on the test items at hand, and as methods over seeds."""
