"""Links PTX and LTO-IR through cuda.bindings, with nothing in the environment that names a toolkit.

Use: places.py ARCH LIBRARY, in the folder with the inputs. LIBRARY is the file that the functions have to come from.
"""

import os
import sys

from cuda.bindings import nvjitlink


def link(options, kind, paths):
    handle = nvjitlink.create(len(options), options)
    try:
        for path in paths:
            nvjitlink.add_file(handle, getattr(nvjitlink.InputType, kind), path)
        nvjitlink.complete(handle)
        image = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, image)
        assert image[:4] == b"\x7fELF", paths
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        sys.exit(f"{paths}: {error}: {log.decode()}")


arch = f"-arch=sm_{sys.argv[1]}"
link([arch], "PTX", ["c.ptx"])
link([arch, "-lto"], "LTOIR", ["k.ltoir", "c.ltoir"])
with open("/proc/self/maps") as file:
    mapped = {os.path.realpath(line.split()[-1]) for line in file if "nvJitLink" in line}
# The one that was asked for, and NVIDIA's where LTO-IR was compiled with it.
assert os.path.realpath(sys.argv[2]) in mapped, mapped
