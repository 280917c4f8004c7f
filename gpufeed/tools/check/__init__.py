"""`gpufeed check`: what is wrong with the images of a dataset, before a run finds out."""
