"""Reads images in tar shards, as WebDataset has them, with random access."""

from gpufeed.records.webdataset.reader import list_webdataset as list_webdataset
from gpufeed.records.webdataset.reader import read_webdataset as read_webdataset

__all__ = ["list_webdataset", "read_webdataset"]
