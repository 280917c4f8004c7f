"""`gpufeed check`: what is wrong with the pictures of a dataset, before a run finds out."""
