"""`gpufeed check`: finding the bad images of a data set before a run does."""
