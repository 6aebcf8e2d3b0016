"""Linear recurrences: a matrix-valued state that decays, is gated or follows the delta rule."""
