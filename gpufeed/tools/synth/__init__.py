"""A synthetic data set in the shape of NABirds: images to try and test with, no download.

Its modules, each resting on those above it:

- `taxonomy.py`: the classes, their names and their hierarchy
- `plan.py`: everything but the pixels: ids, classes, sizes, boxes, split, photographers
- `layer.py`: shapes with soft edges, pasted into an image
- `bird.py`: the subject: its shape and colours by class, its pose by image
- `scene.py`: a whole image: background, perch, bird, texture
- `write.py`: the files
"""

from gpufeed.tools.synth.plan import Plan, plan_nabirds
from gpufeed.tools.synth.write import write_nabirds

__all__ = ["Plan", "plan_nabirds", "write_nabirds"]
