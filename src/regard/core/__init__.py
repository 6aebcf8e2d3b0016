"""The words everyone uses: the mechanism contract, masks, shapes, costs, normalisers, names.

This room imports nothing of ours.
"""
