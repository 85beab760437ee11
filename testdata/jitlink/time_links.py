"""Times links of two objects through two libraries of libnvJitLink's interface, loaded into one process, in turns.

usage: time_links.py THEIRS OURS ARCH ROUNDS OBJECT...
Prints the medians in microseconds and the median of the ratios ours/theirs, wall time and CPU time of the process.
"""

import ctypes
import os
import statistics
import sys
import time

theirs, ours, arch, rounds, *objects = sys.argv[1:]
data = [(name.encode(), open(name, "rb").read()) for name in objects]
CUBIN = 1


def load(path):
    # Names of one must not be found in the other.
    return ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW)


def link(library):
    options = (ctypes.c_char_p * 1)(b"-arch=" + arch.encode())
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()

    def call(name, *arguments):
        code = getattr(library, "nvJitLink" + name)(*arguments)
        if code != 0:
            raise SystemExit(f"nvJitLink{name}: {code}")

    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    call("Create", ctypes.byref(handle), 1, options)
    for name, contents in data:
        call("AddData", handle, CUBIN, contents, ctypes.c_size_t(len(contents)), name)
    call("Complete", handle)
    call("GetLinkedCubinSize", handle, ctypes.byref(size))
    image = ctypes.create_string_buffer(size.value)
    call("GetLinkedCubin", handle, image)
    call("Destroy", ctypes.byref(handle))
    return (time.perf_counter_ns() - begin) / 1e3, (time.process_time_ns() - cpu) / 1e3


libraries = [load(theirs), load(ours)]
for library in libraries:
    link(library)
pairs = []
for turn in range(int(rounds)):
    order = [0, 1] if turn % 2 == 0 else [1, 0]
    times = {which: link(libraries[which]) for which in order}
    pairs.append((times[0], times[1]))
for place, what in enumerate(["wall", "cpu"]):
    first = statistics.median(pair[0][place] for pair in pairs)
    second = statistics.median(pair[1][place] for pair in pairs)
    ratio = statistics.median(pair[1][place] / max(pair[0][place], 0.001) for pair in pairs)
    print(f"{what} {first:.1f} {second:.1f} {ratio:.3f}")
