"""The training loop, its budgets, schedules, optimisers, averages and checkpoints.

This room knows the protocols of a task, never a concrete task or model.
"""
