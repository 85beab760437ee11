"""culd beside NVIDIA's Python packages: its library in their place, their compilers found.

The task `cargo xtask python --packages` runs this with nothing in the environment that names a
toolkit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import culd

culd.preload()
from cuda.bindings import nvjitlink, nvrtc  # noqa: E402

RELEASE = int(os.environ["CULD_RELEASE"])
ARCHS = ["75", "80", "90"] + (["100", "120"] if RELEASE == 13 else [])

CALLER = """
extern __device__ int callee(int);
extern "C" __global__ void kernel(int *out) { *out = callee(*out); }
"""
CALLEE = "__device__ int callee(int value) { return 3 * value; }"


def compiled(source: str, arch: str, *options: str) -> bytes:
    """PTX of CUDA C++, or LTO-IR with -dlto."""

    def checked(error: object, *values: object) -> object:
        assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS, error
        return values[0] if values else None

    program = checked(*nvrtc.nvrtcCreateProgram(source.encode(), b"file.cu", 0, [], []))
    words = [f"--gpu-architecture=compute_{arch}".encode(), b"-rdc=true"]
    words += [option.encode() for option in options]
    checked(*nvrtc.nvrtcCompileProgram(program, len(words), words))
    if "-dlto" in options:
        text = b" " * checked(*nvrtc.nvrtcGetLTOIRSize(program))
        checked(*nvrtc.nvrtcGetLTOIR(program, text))
    else:
        text = b" " * checked(*nvrtc.nvrtcGetPTXSize(program))
        checked(*nvrtc.nvrtcGetPTX(program, text))
    return text


def by_bindings(options: list[str], kind: str, inputs: list[bytes]) -> bytes:
    """The cubin that cuda.bindings gets."""
    handle = nvjitlink.create(len(options), options)
    for place, data in enumerate(inputs):
        kind_of = getattr(nvjitlink.InputType, kind)
        nvjitlink.add_data(handle, kind_of, data, len(data), f"input {place}")
    nvjitlink.complete(handle)
    image = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, image)
    nvjitlink.destroy(handle)
    return bytes(image)


def loaded() -> list[str]:
    """The libraries of that name in this process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sorted({line.split()[-1] for line in maps if f"libnvJitLink.so.{RELEASE}" in line})


@pytest.mark.parametrize("arch", ARCHS)
def test_ptx_is_linked_by_this_library(arch: str) -> None:
    inputs = [compiled(source, arch) for source in (CALLER, CALLEE)]
    image = by_bindings([f"-arch=sm_{arch}"], "PTX", inputs)
    assert loaded()[0] == culd.library(RELEASE)
    # The linker's note, which files of CUDA 12 do not have.
    assert image[:4] == b"\x7fELF" and (b"culd" in image or RELEASE == 12)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_module_finds_ptxas(arch: str) -> None:
    inputs = [compiled(source, arch) for source in (CALLER, CALLEE)]
    linked = culd.link(inputs, arch=f"sm_{arch}")
    functions = {function["name"] for function in linked.report["images"][0]["functions"]}
    assert "kernel" in functions, functions


@pytest.mark.parametrize("arch", ARCHS)
def test_lto_ir_is_compiled_by_nvidias_library(arch: str) -> None:
    inputs = [compiled(source, arch, "-dlto") for source in (CALLER, CALLEE)]
    image = by_bindings([f"-arch=sm_{arch}", "-lto"], "LTOIR", inputs)
    assert image[:4] == b"\x7fELF"
    # This library and, for the compiler in it, NVIDIA's.
    assert len(loaded()) == 2, loaded()


@pytest.mark.skipif(RELEASE != 13, reason="the extra lto is for CUDA 13")
def test_the_module_links_lto_ir() -> None:
    inputs = [compiled(source, "90", "-dlto") for source in (CALLER, CALLEE)]
    linked = culd.link(inputs, arch="sm_90", options="-lto")
    # libnvJitLink makes a whole program of LTO-IR alone: there is nothing left to link or to report.
    assert linked.cubin[:4] == b"\x7fELF" and b".text.kernel" in linked.cubin


def test_the_command_finds_ptxas(tmp_path: Path) -> None:
    for name, source in (("a.ptx", CALLER), ("b.ptx", CALLEE)):
        (tmp_path / name).write_bytes(compiled(source, "90").rstrip(b"\0"))
    command = [culd.program(), "-arch=sm_90", "a.ptx", "b.ptx", "-o", "out.cubin"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert (tmp_path / "out.cubin").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.skipif(RELEASE != 13, reason="cuda.core is tested with CUDA 13")
def test_cuda_core_links_with_this_library(tmp_path: Path) -> None:
    driver = str(tmp_path / "libcuda.so.1")
    source = str(Path(__file__).with_name("driver.c"))
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", driver, source], check=True)
    texts = [compiled(source, "90").rstrip(b"\0") for source in (CALLER, CALLEE)]
    code = f"""
import culd; culd.preload()
from cuda.core import Linker, LinkerOptions, ObjectCode
linker = Linker(*[ObjectCode.from_ptx(text) for text in {texts!r}], options=LinkerOptions(arch="sm_90"))
assert linker.which_backend() == "nvJitLink", linker.which_backend()
code = linker.link("cubin").code
assert code[:4] == b"\\x7fELF" and b"culd" in code
"""
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr
