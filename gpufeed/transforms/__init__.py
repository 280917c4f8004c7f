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
from gpufeed.transforms.colour import JPEG as JPEG
from gpufeed.transforms.colour import Contrast as Contrast
from gpufeed.transforms.colour import Gamma as Gamma
from gpufeed.transforms.colour import GaussianBlur as GaussianBlur
from gpufeed.transforms.colour import RandomAdjustSharpness as RandomAdjustSharpness
from gpufeed.transforms.colour import RandomAutocontrast as RandomAutocontrast
from gpufeed.transforms.colour import RandomEqualize as RandomEqualize
from gpufeed.transforms.colour import RandomGrayscale as RandomGrayscale
from gpufeed.transforms.colour import RandomInvert as RandomInvert
from gpufeed.transforms.colour import RandomPosterize as RandomPosterize
from gpufeed.transforms.colour import RandomSolarize as RandomSolarize
from gpufeed.transforms.frame import Frame as Frame
from gpufeed.transforms.geometric import BoxCrop as BoxCrop
from gpufeed.transforms.geometric import CenterCrop as CenterCrop
from gpufeed.transforms.geometric import PadToSquare as PadToSquare
from gpufeed.transforms.geometric import RandomCrop as RandomCrop
from gpufeed.transforms.geometric import RandomHorizontalFlip as RandomHorizontalFlip
from gpufeed.transforms.geometric import RandomResizedCrop as RandomResizedCrop
from gpufeed.transforms.geometric import Resize as Resize
from gpufeed.transforms.geometric import ResizeLongest as ResizeLongest
from gpufeed.transforms.jitter import ColorJitter as ColorJitter
from gpufeed.transforms.output import Normalize as Normalize
from gpufeed.transforms.output import ToDtype as ToDtype

__all__ = [
    "JPEG",
    "BoxCrop",
    "CenterCrop",
    "ColorJitter",
    "Contrast",
    "DType",
    "Frame",
    "Gamma",
    "GaussianBlur",
    "GeometricTransform",
    "Layout",
    "Normalize",
    "OutputFormat",
    "PadToSquare",
    "Params",
    "PixelTransform",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomCrop",
    "RandomEqualize",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomSolarize",
    "Records",
    "Resize",
    "ResizeLongest",
    "ToDtype",
    "Transform",
]
