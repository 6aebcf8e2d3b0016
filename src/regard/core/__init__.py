"""The mechanism contract, masks, costs, the FLOP counter, protocols, records and name lookup.

Imports no other package of `regard`.
"""
