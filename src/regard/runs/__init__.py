"""A spec becomes a task and a model, these become a run folder, and a folder becomes a model again.

    spec (typed, unknown keys refused)  →  task + model  →  training loop  →  run folder

See `run_folder.py` for what lies in a folder.
"""
