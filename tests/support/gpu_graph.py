"""Checks a DALI graph for a GPU where there is no GPU: each of its operators, as it is defined.

What DALI declares is asked of DALI: on which backends an operator has a kernel, which device and
layout an input must have, which arguments there are and of which dtype, and which dtype, number of
dimensions and layout come out. Which dtypes a kernel takes it does not declare; `TAKES` has them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from nvidia.dali import Pipeline, backend, ops
from nvidia.dali.data_node import DataNode
from nvidia.dali.tensors import TensorListCPU
from nvidia.dali.types import DALIDataType as D
from nvidia.dali.types import to_numpy_type

__all__ = ["CODE", "LETTERS", "TAKES", "faults"]

INTEGERS = {D.UINT8, D.INT8, D.UINT16, D.INT16, D.UINT32, D.INT32, D.UINT64, D.INT64}
NUMBERS = INTEGERS | {D.FLOAT16, D.FLOAT, D.FLOAT64}
PLACES = {D.INT32, D.INT64, D.FLOAT}
ANY = NUMBERS | {D.BOOL}

TAKES: dict[str, list[set[D]]] = {
    "BrightnessContrast": [{D.UINT8, D.INT16, D.INT32, D.FLOAT}],
    "Cast": [ANY],
    "CastLike": [ANY],
    "Cat": [ANY],
    "ColorSpaceConversion": [{D.UINT8}],
    "Constant": [],
    "Copy": [ANY],
    "CropMirrorNormalize": [{D.UINT8, D.INT16, D.UINT16, D.INT32, D.FLOAT16, D.FLOAT}],
    "Equalize": [{D.UINT8}],
    "Erase": [INTEGERS | {D.FLOAT}],
    "ExpandDims": [ANY],
    "ExternalSource": [],
    "Filter": [{D.UINT8, D.INT8, D.UINT16, D.INT16, D.FLOAT16, D.FLOAT}, {D.FLOAT}],
    "Flip": [INTEGERS | {D.FLOAT, D.FLOAT64}],
    "JpegCompressionDistortion": [{D.UINT8}],
    "PermuteBatch": [ANY],
    "Reshape": [ANY],
    "Resize": [{D.UINT8, D.INT16, D.UINT16, D.FLOAT}],
    "ResizeCropMirror": [{D.UINT8, D.INT16, D.UINT16, D.FLOAT}],
    "Slice": [NUMBERS, PLACES],
    "Stack": [ANY],
    "_ArithmeticGenericOp": [ANY - {D.FLOAT16}],
    "_TensorSubscript": [ANY],
    "_conditional__Merge": [ANY],
    "_conditional__Split": [ANY],
    "decoders__Image": [{D.UINT8}],
    "decoders__ImageSlice": [{D.UINT8}, PLACES],
    "experimental__WarpPerspective": [{D.UINT8, D.INT16, D.UINT16, D.FLOAT}],
    "reductions__Max": [INTEGERS | {D.FLOAT}],
    "reductions__Mean": [INTEGERS | {D.FLOAT}],
    "reductions__Min": [INTEGERS | {D.FLOAT}],
}
"""The dtypes of each input that an operator takes on a GPU; the last are those of all further ones.

From DALI 2.4: `CODE` says where its library names them. The others are from its public sources
(dali/operators): those that copy take all dtypes; arithmetic_meta.h leaves out float16; Equalize,
ColorSpaceConversion and JpegCompressionDistortion read uint8; WarpPerspective checks its list.
"""

CODE = {
    "BrightnessContrast": ("21BrightnessContrastGpu13RunImplHelper", 1),
    "CropMirrorNormalize": ("25NewCropMirrorNormalizeGPU23SetupSfnGpuGenericTyped", 1),
    "Erase": ("12EraseImplGpu", 0),
    "Filter": ("6filter11FilterOpGpu", 1),
    "Flip": ("7kernels7FlipGPU", 0),
    "Resize": ("15ResizeOpImplGPU", 1),
    "Slice": ("12SliceBaseGpu", 1),
    "reductions__Max": ("7kernels6MaxGPU", 1),
    "reductions__Mean": ("7kernels7MeanGPU", 1),
}
"""Templates of libdali_operators.so, by their mangled names in the namespace dali: an operator's
kernels on a GPU, and which of the template's arguments is the dtype of the first input."""

LETTERS = {
    "NS_7float16E": D.FLOAT16,
    "S1_": D.FLOAT16,  # once more
    "a": D.INT8,
    "b": D.BOOL,
    "d": D.FLOAT64,
    "f": D.FLOAT,
    "h": D.UINT8,
    "i": D.INT32,
    "j": D.UINT32,
    "l": D.INT64,
    "m": D.UINT64,
    "s": D.INT16,
    "t": D.UINT16,
}
"""Mangled names of dtypes."""


REGISTERED = {
    "cpu": set(backend.RegisteredCPUOps()),
    "gpu": set(backend.RegisteredGPUOps()),
    "mixed": set(backend.RegisteredMixedOps()),
}
"""The operators that have a kernel, by backend."""


@dataclass(frozen=True)
class Tensor:
    """What is known of a `DataNode`."""

    device: str
    dtype: D | None
    ndim: int | None
    layout: str | None


@dataclass
class Recorder:
    """The operators of a graph while it is defined, and what is wrong with them."""

    feeds: Mapping[str, Any]
    faults: list[str] = field(default_factory=list)
    known: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)

    def of(self, node: DataNode) -> Tensor:
        """What is known of a node; a copy on another device is the same otherwise."""
        return replace(self.known[id(node.source), node.index or 0], device=node.device)

    def tell(self, node: Any) -> None:
        """Write into a node what DALI infers the dtypes of operators from."""
        if isinstance(node, DataNode):
            tensor = self.of(node)
            node.dtype, node.ndim, node.layout = tensor.dtype, tensor.ndim, tensor.layout

    def add(
        self, operator: Any, arguments: Mapping[str, DataNode], given: Mapping[str, Any]
    ) -> None:
        """Check a new operator; `arguments` are those per record, `given` the others."""
        schema, device, spec = operator._op.schema, operator._op.device, operator._spec
        inputs = [self.of(node) for node in operator._inputs[: spec.NumRegularInput()]]
        own = {name: self.of(node) for name, node in arguments.items()}
        outputs = self._inferred(operator, inputs, given)
        self.known |= {(id(operator), place): each for place, each in enumerate(outputs)}
        self.kept.append(operator)  # so that no other operator gets its id
        for fault in _check(schema, device, inputs, own, outputs):
            self.faults.append(f"{schema.Name()} on {device}: {fault}")

    def _inferred(
        self, operator: Any, inputs: list[Tensor], given: Mapping[str, Any]
    ) -> list[Tensor]:
        name, spec = operator._op.schema.Name(), operator._spec
        device = operator.outputs[0].device
        if name == "ExternalSource":
            return [_fed(self.feeds[operator.outputs[0].name])]
        if name.startswith("reductions__"):  # of which DALI infers nothing
            (image,) = inputs
            ndim = image.ndim if given.get("keep_dims") else None
            dtype = given["dtype"] if name == "reductions__Mean" else image.dtype
            return [Tensor(device, dtype, ndim, None)]
        spec.InferOutputMetadata()
        described = [spec.OutputDesc(place) for place in range(len(operator.outputs))]
        return [
            Tensor(device, dtype, ndim, None if layout is None else str(layout))
            for _, _, ndim, dtype, layout in described
        ]


def _fed(values: Any) -> Tensor:
    if isinstance(values, TensorListCPU):
        return Tensor("cpu", values.dtype, len(values[0].shape()), values.layout() or None)
    (dtype,) = [each for each in ANY if to_numpy_type(each) == values.dtype]
    return Tensor("cpu", dtype, values.ndim - 1, None)


def _check(
    schema: Any,
    device: str,
    inputs: list[Tensor],
    arguments: Mapping[str, Tensor],
    outputs: list[Tensor],
) -> Iterator[str]:
    name = schema.Name()
    if name not in REGISTERED[device]:
        yield "DALI has no such kernel"
    if name not in TAKES:
        yield "is not in TAKES; enter which dtypes it takes on a GPU"
        return
    for place, given in enumerate(inputs):
        takes = TAKES[name][min(place, len(TAKES[name]) - 1)]
        if given.dtype not in takes:
            yield f"input {place} is {_name(given.dtype)}, must be of {sorted(map(_name, takes))}"
        layouts = [str(layout) for layout in schema.GetSupportedLayouts(place)]
        if layouts and given.layout and given.layout not in layouts:
            yield f"input {place} is {given.layout}, must be of {layouts}"
        if layouts and given.ndim is not None and given.ndim not in map(len, layouts):
            yield f"input {place} has {given.ndim} dimensions, must be of {layouts}"
    for argument, given in arguments.items():
        kind = schema.GetArgumentType(argument).name
        wanted = kind.removeprefix("_").removesuffix("_VEC")
        if _name(given.dtype) != wanted:
            yield f"{argument} is {_name(given.dtype)}, must be {wanted}"
        if given.ndim and not kind.endswith("_VEC"):
            yield f"{argument} has {given.ndim} dimensions, must be one number"
    for place, made in enumerate(outputs):
        if made.dtype is None:
            yield f"the dtype of output {place} is unknown"


def _name(dtype: D | None) -> str:
    return "unknown" if dtype is None else dtype.name


@contextlib.contextmanager
def _recorded(recorder: Recorder) -> Iterator[None]:
    instance = ops._OperatorInstance
    define = instance.__init__

    def defined(
        self: Any, inputs: Any, arguments: Any, given: Any, processed: Any, operator: Any
    ) -> None:
        for node in (*inputs, *arguments.values()):
            recorder.tell(node)
        define(self, inputs, arguments, given, processed, operator)
        names = sorted(name for name, node in arguments.items() if node is not None)
        own = self._inputs[self._spec.NumRegularInput() :]
        recorder.add(self, dict(zip(names, own, strict=True)), {**processed, **given})

    with mock.patch.object(instance, "__init__", defined):
        yield


def faults(
    define: Callable[[], Pipeline], feeds: Mapping[str, Any], outputs: list[tuple[D, str]]
) -> list[str]:
    """Return what is wrong with a graph, in words; nothing of it is built or run.

    Args:
        define: defines the graph of a pipeline for a GPU.
        feeds: what its inputs are fed with, by name: NumPy arrays or DALI's tensor lists.
        outputs: dtype and layout that each of its outputs must have, on the GPU.
    """
    recorder = Recorder(feeds)
    with _recorded(recorder):
        try:
            pipeline = define()
            pipeline._build_graph()
        except (KeyError, TypeError, ValueError, RuntimeError) as error:  # by DALI itself
            return [*recorder.faults, f"{type(error).__name__}: {error}"]
    for place, (node, (dtype, layout)) in enumerate(zip(pipeline._graph_out, outputs, strict=True)):
        made = recorder.of(node)
        wanted = Tensor("gpu", dtype, made.ndim and 3, made.layout and layout)
        if made != wanted:
            recorder.faults.append(f"output {place} is {made}, must be {wanted}")
    return recorder.faults
