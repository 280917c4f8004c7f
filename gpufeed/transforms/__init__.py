"""What happens to each picture: numbers drawn on the host, work done by DALI.

Importing this package imports no DALI.
"""

from gpufeed.transforms.base import DType as DType
from gpufeed.transforms.base import GeometricTransform as GeometricTransform
from gpufeed.transforms.base import Layout as Layout
from gpufeed.transforms.base import OutputFormat as OutputFormat
from gpufeed.transforms.base import Params as Params
from gpufeed.transforms.base import PixelTransform as PixelTransform
from gpufeed.transforms.base import Records as Records
from gpufeed.transforms.base import Transform as Transform
from gpufeed.transforms.detection import RandomIoUCrop as RandomIoUCrop
from gpufeed.transforms.detection import RandomShortestSize as RandomShortestSize
from gpufeed.transforms.detection import RandomZoomOut as RandomZoomOut
from gpufeed.transforms.detection import ScaleJitter as ScaleJitter
from gpufeed.transforms.frame import Frame as Frame
from gpufeed.transforms.geometric import BoxCrop as BoxCrop
from gpufeed.transforms.geometric import CenterCrop as CenterCrop
from gpufeed.transforms.geometric import Pad as Pad
from gpufeed.transforms.geometric import PadToSquare as PadToSquare
from gpufeed.transforms.geometric import RandomCrop as RandomCrop
from gpufeed.transforms.geometric import RandomHorizontalFlip as RandomHorizontalFlip
from gpufeed.transforms.geometric import RandomResizedCrop as RandomResizedCrop
from gpufeed.transforms.geometric import RandomVerticalFlip as RandomVerticalFlip
from gpufeed.transforms.geometric import Resize as Resize
from gpufeed.transforms.geometric import ResizeLongest as ResizeLongest
from gpufeed.transforms.output import Normalize as Normalize
from gpufeed.transforms.output import ToDtype as ToDtype
from gpufeed.transforms.targets import Objects as Objects
from gpufeed.transforms.views import Views as Views

__all__ = [
    "BoxCrop",
    "CenterCrop",
    "DType",
    "Frame",
    "GeometricTransform",
    "Layout",
    "Normalize",
    "Objects",
    "OutputFormat",
    "Pad",
    "PadToSquare",
    "Params",
    "PixelTransform",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomIoUCrop",
    "RandomResizedCrop",
    "RandomShortestSize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Records",
    "Resize",
    "ResizeLongest",
    "ScaleJitter",
    "ToDtype",
    "Transform",
    "Views",
]
