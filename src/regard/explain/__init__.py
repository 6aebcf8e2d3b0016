"""What a trained model attended to."""
