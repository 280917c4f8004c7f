"""Sources: where images are stored. A source turns record keys into bytes, or into pixels."""

from gpufeed.source.base import Encoded as Encoded
from gpufeed.source.base import Source as Source
from gpufeed.source.files import FileSource as FileSource
from gpufeed.source.memory import MemorySource as MemorySource

__all__ = ["Encoded", "FileSource", "MemorySource", "Source"]
