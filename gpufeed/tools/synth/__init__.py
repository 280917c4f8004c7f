"""A synthetic data set in the format of NABirds, for trying and testing without a download.

Its modules, each of which builds on those above it:

- `taxonomy.py`: the classes, their names and their hierarchy
- `plan.py`: all metadata: ids, classes, sizes, boxes, splits, photographers
- `layer.py`: shapes with soft edges that are pasted into an image
- `bird.py`: the bird, whose shape and colours depend on the class, and its pose on the image
- `scene.py`: a whole image: background, perch, bird, texture
- `write.py`: the files
"""

from gpufeed.tools.synth.plan import Plan, plan_nabirds
from gpufeed.tools.synth.write import write_nabirds

__all__ = ["Plan", "plan_nabirds", "write_nabirds"]
