"""Links through cuda.bindings, as Python programs do, and prints what came out.

Use: bindings.py ARCH LIBRARY, in the folder with the inputs; images go to the folder named by OUT in the environment.
LIBRARY is the file that the functions have to come from: cuda.bindings looks for one by itself, and would find another.
"""

import os
import sys

from cuda.bindings import nvjitlink

INPUTS = {
    "cubins": [("CUBIN", "a.cubin"), ("CUBIN", "b.cubin"), ("ANY", "c.cubin")],
    "ptx": [("PTX", "a.ptx"), ("PTX", "b.ptx"), ("ANY", "c.ptx")],
    "carriers": [("FATBIN", "a.fatbin"), ("OBJECT", "b.o"), ("LIBRARY", "libc.a")],
}


def link(name, arch, inputs, by_path):
    handle = nvjitlink.create(1, [f"-arch=sm_{arch}"])
    for kind, path in inputs:
        kind = getattr(nvjitlink.InputType, kind)
        if by_path:
            nvjitlink.add_file(handle, kind, path)
        else:
            with open(path, "rb") as file:
                data = file.read()
            nvjitlink.add_data(handle, kind, data, len(data), path)
    nvjitlink.complete(handle)
    image = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, image)
    print(f"{name}: {len(image)} bytes")
    with open(os.path.join(os.environ["OUT"], f"{name}.cubin"), "wb") as file:
        file.write(image)
    nvjitlink.destroy(handle)


def main(arch, library):
    print("version", *nvjitlink.version())
    for name, inputs in INPUTS.items():
        for by_path in (False, True):
            link(f"{name}-{'file' if by_path else 'data'}", arch, inputs, by_path)
    try:
        nvjitlink.create(1, ["-bogus"])
    except nvjitlink.nvJitLinkError as error:
        print("refused:", error)
    handle = nvjitlink.create(1, [f"-arch=sm_{arch}"])
    with open("a.cubin", "rb") as file:
        data = file.read()
    nvjitlink.add_data(handle, nvjitlink.InputType.CUBIN, data, len(data), "a")
    try:
        nvjitlink.complete(handle)
    except nvjitlink.nvJitLinkError as error:
        print("failed:", error)
    log = bytearray(nvjitlink.get_error_log_size(handle))
    nvjitlink.get_error_log(handle, log)
    print(log.decode().rstrip("\0"), end="")
    nvjitlink.destroy(handle)
    with open("/proc/self/maps") as file:
        mapped = {line.split()[-1] for line in file if "nvJitLink" in line}
    print("loaded:", "only the one" if mapped == {os.path.realpath(library)} else sorted(mapped))


main(*sys.argv[1:])
