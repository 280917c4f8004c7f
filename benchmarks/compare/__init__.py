"""The comparison of gpufeed with other loaders at the same work, in one run."""
