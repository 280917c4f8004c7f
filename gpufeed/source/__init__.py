"""Sources: where images are stored. A source turns record keys into bytes, or into pixels."""

from gpufeed.source.array_record import ArrayRecordSource as ArrayRecordSource
from gpufeed.source.base import Encoded as Encoded
from gpufeed.source.base import Source as Source
from gpufeed.source.files import FileSource as FileSource
from gpufeed.source.hdf5 import Hdf5Source as Hdf5Source
from gpufeed.source.lmdb import LmdbSource as LmdbSource
from gpufeed.source.memory import MemorySource as MemorySource

__all__ = [
    "ArrayRecordSource",
    "Encoded",
    "FileSource",
    "Hdf5Source",
    "LmdbSource",
    "MemorySource",
    "Source",
]
