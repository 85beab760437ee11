"""The places of culd's own programs and libraries, and of NVIDIA's tools in other packages.

In: where this package lies. Out: paths. Guaranteed: nothing of NVIDIA's is loaded or run.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import sysconfig

#: This package.
_HERE = os.path.dirname(os.path.abspath(__file__))
#: Folders in package nvidia with ptxas or NVIDIA's libnvJitLink: of CUDA 13, of CUDA 12.
_WHEELS = ("cu13", "cuda_nvcc", "nvjitlink")
#: The major releases of CUDA whose libnvJitLink is here.
_RELEASES = (13, 12)

_found: tuple[list[str], str | None] | None = None
#: Libraries of preload(), which stay loaded.
_loaded: dict[int, ctypes.CDLL] = {}


def program(name: str = "culd") -> str:
    """The path of one of culd's programs: culd, culd-lto, culd-dump, culd-diff."""
    # Three folders up is the environment that pip installed into; with `pip install --target`, the
    # programs are beside the package.
    up = os.path.dirname
    folders = [up(up(up(up(_HERE)))), up(_HERE)]
    for folder in [os.path.join(folder, "bin") for folder in folders] + [sysconfig.get_path("scripts")]:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(f"{name} is not installed: {_ADVICE}")


def library(cuda: int = 13) -> str:
    """The path of culd's libnvJitLink.so.13, or of that of another major release of CUDA."""
    path = os.path.join(_HERE, "lib", f"libnvJitLink.so.{cuda}")
    if os.path.isfile(path):
        return path
    raise FileNotFoundError(f"libnvJitLink.so.{cuda} is not installed: {_ADVICE}")


_ADVICE = "culd's wheel has it, an installation from source has the module alone"


def preload(*cuda: int) -> None:
    """Puts culd's libnvJitLink in the place of NVIDIA's for this process.

    Call it before a package that links loads NVIDIA's: numba-cuda, cuda-python, cuda-core and CuPy
    load the library when they link for the first time, and take the one that is loaded already.
    `cuda` are major releases of CUDA, by default the one that the installed packages are for. Raises
    RuntimeError if NVIDIA's library of such a release is loaded already.
    """
    for release in cuda or (_installed(),):
        if release in _loaded:
            continue
        path = library(release)
        other = _mapped(os.path.basename(path))
        if other is not None and not os.path.samefile(other, path):
            raise RuntimeError(f"{other} is loaded already: call culd.preload() earlier")
        _loaded[release] = ctypes.CDLL(path)


def _installed() -> int:
    """The major release of CUDA that the packages of this Python link for."""
    # Only one library is loaded: cuda-bindings takes whichever it finds in the process, also that
    # of another release than its own.
    for package in ("cuda-bindings", "nvidia-nvjitlink"):
        try:
            release = int(importlib.metadata.version(package).partition(".")[0])
        except (importlib.metadata.PackageNotFoundError, ValueError):
            continue
        if release in _RELEASES:
            return release
    try:
        importlib.metadata.version("nvidia-nvjitlink-cu12")
    except importlib.metadata.PackageNotFoundError:
        return _RELEASES[0]
    return 12


def _mapped(name: str) -> str | None:
    """The path of a library of this name that the process has loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")
            if os.path.basename(path[2]) == name:
                return "/" + path[2]
    return None


def nvvm_option() -> list[str]:
    """The option -nvvmpath with the libnvvm of the packages; nothing without one."""
    folders = (os.path.join(toolkit, "nvvm") for toolkit in places()[0])
    return [f"-nvvmpath={folder}" for folder in folders if os.path.isdir(folder)][:1]


def places() -> tuple[list[str], str | None]:
    """Folders in NVIDIA's layout in the packages of this Python, and the program culd-lto."""
    global _found
    if _found is None:
        spec = importlib.util.find_spec("nvidia")
        parts = list(spec.submodule_search_locations or ()) if spec else []
        wheels = [os.path.join(part, wheel) for wheel in _WHEELS for part in parts]
        try:
            lto = program("culd-lto")
        except FileNotFoundError:
            lto = None
        _found = ([wheel for wheel in wheels if os.path.isdir(wheel)], lto)
    return _found
