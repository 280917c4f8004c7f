"""Transforms: parameters drawn on the host, operators in DALI's graph.

Importing this package does not import DALI.
"""

from gpufeed.transforms.base import DType as DType
from gpufeed.transforms.base import GeometricTransform as GeometricTransform
from gpufeed.transforms.base import LateTransform as LateTransform
from gpufeed.transforms.base import Layout as Layout
from gpufeed.transforms.base import Made as Made
from gpufeed.transforms.base import MixTransform as MixTransform
from gpufeed.transforms.base import OutputFormat as OutputFormat
from gpufeed.transforms.base import Params as Params
from gpufeed.transforms.base import PixelTransform as PixelTransform
from gpufeed.transforms.base import Records as Records
from gpufeed.transforms.base import Transform as Transform
from gpufeed.transforms.base import Tree as Tree
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
from gpufeed.transforms.containers import Compose as Compose
from gpufeed.transforms.containers import RandomApply as RandomApply
from gpufeed.transforms.containers import RandomChoice as RandomChoice
from gpufeed.transforms.detection import RandomIoUCrop as RandomIoUCrop
from gpufeed.transforms.detection import RandomResize as RandomResize
from gpufeed.transforms.detection import RandomShortestSize as RandomShortestSize
from gpufeed.transforms.detection import RandomZoomOut as RandomZoomOut
from gpufeed.transforms.detection import ScaleJitter as ScaleJitter
from gpufeed.transforms.erase import RandomErasing as RandomErasing
from gpufeed.transforms.frame import Frame as Frame
from gpufeed.transforms.function import Lambda as Lambda
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
from gpufeed.transforms.jitter import ColorJitter as ColorJitter
from gpufeed.transforms.labels import SoftLabels as SoftLabels
from gpufeed.transforms.mix import CutMix as CutMix
from gpufeed.transforms.mix import MixUp as MixUp
from gpufeed.transforms.objects import Objects as Objects
from gpufeed.transforms.output import Normalize as Normalize
from gpufeed.transforms.output import ToDtype as ToDtype
from gpufeed.transforms.policies import AugMix as AugMix
from gpufeed.transforms.policies import AutoAugment as AutoAugment
from gpufeed.transforms.policies import RandAugment as RandAugment
from gpufeed.transforms.policies import TrivialAugmentWide as TrivialAugmentWide
from gpufeed.transforms.timm_policy import TimmRandAugment as TimmRandAugment
from gpufeed.transforms.views import FiveCrop as FiveCrop
from gpufeed.transforms.views import TenCrop as TenCrop
from gpufeed.transforms.views import Views as Views
from gpufeed.transforms.warps import RandomAffine as RandomAffine
from gpufeed.transforms.warps import RandomPerspective as RandomPerspective
from gpufeed.transforms.warps import RandomRotation as RandomRotation

__all__ = [
    "JPEG",
    "AugMix",
    "AutoAugment",
    "BoxCrop",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "Contrast",
    "CutMix",
    "DType",
    "FiveCrop",
    "Frame",
    "Gamma",
    "GaussianBlur",
    "GeometricTransform",
    "Lambda",
    "LateTransform",
    "Layout",
    "Made",
    "MixTransform",
    "MixUp",
    "Normalize",
    "Objects",
    "OutputFormat",
    "Pad",
    "PadToSquare",
    "Params",
    "PixelTransform",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Records",
    "Resize",
    "ResizeLongest",
    "ScaleJitter",
    "SoftLabels",
    "TenCrop",
    "TimmRandAugment",
    "ToDtype",
    "Transform",
    "Tree",
    "TrivialAugmentWide",
    "Views",
]
