"""Installed versions and available devices."""

from __future__ import annotations

import ctypes
import importlib
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpufeed
from gpufeed._util.dali_build import check_builds, find_builds, version_of
from gpufeed._util.limits import available_threads
from gpufeed.engine.device import gpu_count

__all__ = ["Fact", "list_devices", "list_versions"]


@dataclass(frozen=True)
class Fact:
    """One line of the report.

    Attributes:
        name: the subject.
        value: its value.
        hint: how to install what is missing; "" if nothing is.
    """

    name: str
    value: str
    hint: str = ""


# Names, distributions on PyPI, and the extra; None for required packages.
_PACKAGES = (
    ("nvJPEG", ("nvidia-nvjpeg-cu12", "nvidia-nvjpeg"), None),
    ("nvImageCodec", ("nvidia-nvimgcodec-cu12", "nvidia-nvimgcodec-cu13"), None),
    ("fast_image_resize", ("cykooz.resizer",), None),
    ("NumPy", ("numpy",), None),
    ("Polars", ("polars",), None),
    ("Pillow", ("pillow",), None),
    ("PyTorch", ("torch",), "torch"),
    ("JAX", ("jax",), "jax"),
)


def list_versions() -> list[Fact]:
    """Return the versions of gpufeed, Python and the packages gpufeed works with."""
    facts = [
        Fact("gpufeed", gpufeed.__version__),
        Fact("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        _dali_fact(find_builds()),
    ]
    for name, distributions, extra in _PACKAGES:
        found = [version for each in distributions if (version := version_of(each))]
        wanted = f"gpufeed[{extra}]" if extra else "gpufeed"
        facts.append(
            Fact(name, found[0])
            if found
            else Fact(name, "not installed", f'pip install "{wanted}"')
        )
    return facts


def list_devices() -> list[Fact]:
    """Return the cores, the driver and the GPUs, and the devices that each library sees."""
    cores = available_threads()
    driver, gpus = _driver()
    facts = [Fact("CPU", f"{cores} core{'s' * (cores > 1)} for this process"), driver]
    facts += [Fact(f"GPU {number}", name) for number, name in enumerate(gpus)]
    facts.append(Fact("DALI sees", *_attempt(_dali_sees)))
    for name, module, sees in (
        ("PyTorch sees", "torch", _torch_sees),
        ("JAX sees", "jax", _jax_sees),
    ):
        if version_of(module):
            facts.append(Fact(name, *_attempt(sees, bool(gpus))))
    return facts


def _dali_fact(builds: dict[str, str]) -> Fact:
    if not builds:
        return Fact("DALI", "not installed", 'pip install "gpufeed"')
    names = ", ".join(f"{version} ({name})" for name, version in builds.items())
    return Fact("DALI", names, check_builds(builds))


def _attempt(look: Callable[..., tuple[str, str]], *arguments: Any) -> tuple[str, str]:
    """Return the result of `look`, or its error, since the report is for broken installations."""
    try:
        return look(*arguments)
    except Exception as error:
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())}", ""


def _count(number: int) -> str:
    return f"{number} GPU{'s' * (number != 1)}"


def _dali_sees() -> tuple[str, str]:
    count = gpu_count()
    return (_count(count), "") if count else ("the CPU only", "")


def _torch_sees(expect_gpu: bool) -> tuple[str, str]:
    torch = importlib.import_module("torch")
    count = int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
    if count:
        return f"{_count(count)} (CUDA {torch.version.cuda})", ""
    hint = "install a CUDA build of torch: https://pytorch.org/get-started" if expect_gpu else ""
    return "the CPU only", hint


def _jax_sees(expect_gpu: bool) -> tuple[str, str]:
    jax = importlib.import_module("jax")
    kinds = [device.platform for device in jax.local_devices()]
    if any(kind != "cpu" for kind in kinds):
        return f"{len(kinds)} device{'s' * (len(kinds) != 1)} ({', '.join(sorted(set(kinds)))})", ""
    return "the CPU only", 'pip install "jax[cuda12]"' if expect_gpu else ""


def _driver() -> tuple[Fact, list[str]]:
    """Return the NVIDIA driver, and the names of the GPUs it offers to this process."""
    name = "NVIDIA driver"
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        hint = "gpufeed works on the CPU; for a GPU, `nvidia-smi` must work here first"
        return Fact(name, "not found", hint), []
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    supports = f"supports CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    code = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        why = text.value.decode() if text.value else f"error {code}"
        hint = "check that `nvidia-smi` works here, and CUDA_VISIBLE_DEVICES"
        return Fact(name, f"found, but unusable: {why}", hint), []
    return Fact(name, f"found, {supports}"), [_gpu_name(cuda, i) for i in range(count.value)]


def _gpu_name(cuda: Any, number: int) -> str:
    device, name, size = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    cuda.cuDeviceGet(ctypes.byref(device), number)
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(size), device)
    return f"{name.value.decode(errors='replace')}, {size.value / 2**30:.0f} GiB"
