"""Reads NABirds, from its own distribution or from the course's `metadata.parquet`."""

from gpufeed.records.nabirds.reader import list_nabirds as list_nabirds
from gpufeed.records.nabirds.reader import read_nabirds as read_nabirds

__all__ = ["list_nabirds", "read_nabirds"]
