"""One module for each library that is compared; each lists its `PEERS`."""
