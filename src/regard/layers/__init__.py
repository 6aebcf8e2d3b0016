"""What surrounds a mechanism: positions, heads, pooling, blocks; and what it is compared with.

Every layer takes (batch, length, width) and answers `cost(SequenceShape(...))`, so that any two
can be compared. Listing the positions (`positions.POSITIONS`) does not import torch.
"""
