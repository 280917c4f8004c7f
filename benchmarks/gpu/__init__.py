"""Everything that a GPU has to settle about gpufeed, in one run of about fifteen minutes."""
