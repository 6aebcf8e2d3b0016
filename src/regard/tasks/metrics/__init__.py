"""Metrics: per-item statistics and corpus scores."""
