"""Records: results as plain values that are written to JSON and drawn without a model."""
