"""A synthetic data set in the shape of NABirds: pictures to try and test with, no download.

Its modules, each resting on those above it:

- `draws.py`: random numbers that are the same everywhere
- `taxonomy.py`: which classes there are, their names and their hierarchy
- `plan.py`: everything but the pixels: ids, classes, sizes, boxes, split, photographers
- `bird.py`: the subject: its shape and colours by class, its pose by image
- `scene.py`: a whole picture: background, perch, subject, texture
- `pictures.py`: the pictures' files, drawn here or by processes (`worker.py`)
- `write.py`: the set as a whole, all or nothing
"""

from gpufeed.tools.synth.plan import Plan, plan_nabirds
from gpufeed.tools.synth.write import write_nabirds

__all__ = ["Plan", "plan_nabirds", "write_nabirds"]
