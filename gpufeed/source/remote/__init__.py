"""Files of object stores and web servers."""
