"""Seeds to batches: loaders, their inputs, epochs and batches."""
