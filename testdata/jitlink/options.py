"""Prints what a libnvJitLink says of each of many words as options: every name that it has, and some that it has not, with
every kind of value; and of some words together.

usage: options.py LIBRARY ARCH
"""

import ctypes
import sys

NAMES = """
-arch -maxrregcount -time -verbose -lto -dlto -ptx -O -O0 -O3 -Ofc --Ofast-compile -Ofast-compile -g -lineinfo -ftz -prec-div
-prec-sqrt -fma -kernels-used -variables-used -optimize-unused-variables -Xptxas -Xnvvm -nvvm-latest -split-compile
-split-compile-extended -jump-table-density -no-cache -device-stack-protector -r -uidx -fast-compile
-cta -opt -optf -l -L -m -v -h -help -version -V -emit -keep -dump -dc -rdc -gpu -code -o -std -D -I -w -res-usage
-disable -ignore -suppress -link -nvvm -nvvmpath -sanitize -debug -opt-level -index
""".split()

VALUES = ["", "=", "=0", "=1", "=3", "=true", "=x", "x", "=-1", "=-0", "= -1x", "=101", "=102", "=min", "=minx", "=max", " "]

TOGETHER = """
-arch=sm_@|-arch=sm_99
-arch=sm_99|-arch=sm_@
-arch=compute_@
-arch=compute_@|-lto
-arch=compute_@|-lto|-ptx
-arch=lto_@|-lto|-ptx
-arch=sm_@|-lto|-ptx
-arch=sm_@|-ptx|-dlto
-lto
-uidx=x
-uidx=x|-arch=sm_99
-uidx=x|-bogus
-arch=sm_75|-g|-lineinfo|-O0
-arch=sm_87
-arch=sm_88
-arch=sm_90a
-arch=sm_90f
-arch=sm_89f
-arch=sm_100f
-arch=sm_101
-arch=sm_103a
-arch=sm_110
-arch=sm_120a
-arch=sm_121f
""".split()


def main(path, arch):
    library = ctypes.CDLL(path)

    def create(words):
        handle, size = ctypes.c_void_p(), ctypes.c_size_t()
        options = (ctypes.c_char_p * len(words))(*[word.encode() for word in words])
        code = library.nvJitLinkCreate(ctypes.byref(handle), len(words), options)
        library.nvJitLinkGetErrorLogSize(handle, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value + 2)
        library.nvJitLinkGetErrorLog(handle, log)
        library.nvJitLinkDestroy(ctypes.byref(handle))
        return f"{code} {log.value.decode()!r}"

    for name in NAMES:
        for value in VALUES:
            print(f"{name}{value}: {create(['-arch=sm_' + arch, name + value])}")
    for line in TOGETHER:
        words = line.replace("@", arch).split("|")
        print(f"{' '.join(words)}: {create(words)}")


main(*sys.argv[1:])
