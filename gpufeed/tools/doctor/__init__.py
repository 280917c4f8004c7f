"""`gpufeed doctor`: what bounds a run, what its ceiling is, and what to change."""
