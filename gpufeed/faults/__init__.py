"""What becomes of a record whose image cannot be read or decoded."""
