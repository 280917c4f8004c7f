"""The loader: batches in order, any batch by its number, and a state to resume from."""
