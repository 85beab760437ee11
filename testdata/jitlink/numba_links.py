"""Links PTX and LTO-IR of a kernel through numba-cuda, which needs no GPU for it.

Use: numba_links.py ARCH LIBRARY FOLDER; the images go to FOLDER. LIBRARY is the file that the functions have to come from.
"""

import os
import sys

from numba import cuda, types
from numba.cuda.cudadrv.driver import _Linker


def kernel(values):
    place = cuda.grid(1)
    if place < values.size:
        values[place] += 1


def link(arch, output, folder):
    cc = (arch // 10, arch % 10)
    code, _ = cuda.compile(
        kernel, types.void(types.float32[::1]), cc=cc, device=False, output=output, abi="numba"
    )
    linker = _Linker(max_registers=None, lineinfo=False, cc=cc, lto=output == "ltoir")
    if output == "ltoir":
        linker.add_ltoir(bytes(code), "kernel")
    else:
        linker.add_ptx(code.encode(), "kernel")
    image = bytes(linker.complete().code)
    with open(os.path.join(folder, f"{output}.cubin"), "wb") as file:
        file.write(image)
    print(f"{output}: {len(image)} bytes")


def main(arch, library, folder):
    for output in ("ptx", "ltoir"):
        link(int(arch), output, folder)
    with open("/proc/self/maps") as file:
        mapped = {line.split()[-1] for line in file if "nvJitLink" in line}
    mapped = {os.path.realpath(path) for path in mapped}
    assert os.path.realpath(library) in mapped, mapped


main(*sys.argv[1:])
