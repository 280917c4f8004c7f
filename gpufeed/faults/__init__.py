"""Handling of records whose image cannot be read or decoded."""
