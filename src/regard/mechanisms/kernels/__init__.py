"""Linear attention: kernels φ(q)·φ(k) in place of exp(q·k)."""
