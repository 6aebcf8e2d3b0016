"""Text classification: data, loss, metrics, and faithfulness of its attention."""
