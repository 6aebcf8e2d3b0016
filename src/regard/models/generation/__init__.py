"""Generation: greedy and beam search, and sampling."""
