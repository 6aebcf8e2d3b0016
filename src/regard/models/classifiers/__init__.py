"""Text classifiers: structured and hierarchical attention, and their baselines."""
