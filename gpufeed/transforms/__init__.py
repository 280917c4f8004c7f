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
from gpufeed.transforms.frame import Frame as Frame
from gpufeed.transforms.geometric import BoxCrop as BoxCrop
from gpufeed.transforms.geometric import CenterCrop as CenterCrop
from gpufeed.transforms.geometric import PadToSquare as PadToSquare
from gpufeed.transforms.geometric import RandomCrop as RandomCrop
from gpufeed.transforms.geometric import RandomHorizontalFlip as RandomHorizontalFlip
from gpufeed.transforms.geometric import RandomResizedCrop as RandomResizedCrop
from gpufeed.transforms.geometric import Resize as Resize
from gpufeed.transforms.geometric import ResizeLongest as ResizeLongest
from gpufeed.transforms.output import Normalize as Normalize
from gpufeed.transforms.output import ToDtype as ToDtype
from gpufeed.transforms.policies import AugMix as AugMix
from gpufeed.transforms.policies import AutoAugment as AutoAugment
from gpufeed.transforms.policies import RandAugment as RandAugment
from gpufeed.transforms.policies import TrivialAugmentWide as TrivialAugmentWide
from gpufeed.transforms.timm import TimmRandAugment as TimmRandAugment

__all__ = [
    "AugMix",
    "AutoAugment",
    "BoxCrop",
    "CenterCrop",
    "DType",
    "Frame",
    "GeometricTransform",
    "Layout",
    "Normalize",
    "OutputFormat",
    "PadToSquare",
    "Params",
    "PixelTransform",
    "RandAugment",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Records",
    "Resize",
    "ResizeLongest",
    "TimmRandAugment",
    "ToDtype",
    "Transform",
    "TrivialAugmentWide",
]
