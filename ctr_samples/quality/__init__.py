"""What is measured about the samples of a run."""
