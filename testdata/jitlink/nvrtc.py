"""Compiles a source with NVRTC: nvrtc.py LIBRARY KIND ARCH SOURCE OUTPUT; KIND is ltoir, ptx or cubin, ARCH a number."""

import ctypes
import sys

OPTIONS = {
    "ltoir": (["-dlto", "--gpu-architecture=compute_{}"], "LTOIR"),
    "ptx": (["-rdc=true", "--gpu-architecture=compute_{}"], "PTX"),
    "cubin": (["-rdc=true", "--gpu-architecture=sm_{}"], "CUBIN"),
}


def main(library, kind, arch, source, output):
    nvrtc = ctypes.CDLL(library)
    with open(source, "rb") as file:
        text = file.read()
    program = ctypes.c_void_p()
    made = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 0, None, None)
    options, result = OPTIONS[kind]
    words = [word.format(arch).encode() for word in options]
    code = made or nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))

    def get(name):
        size = ctypes.c_size_t()
        if getattr(nvrtc, f"nvrtcGet{name}Size")(program, ctypes.byref(size)):
            sys.exit(f"nvrtc.py: no {name}")
        room = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{name}")(program, room)
        return room.raw

    if code:
        sys.exit(f"nvrtc.py: {source}: code {code}\n" + get("ProgramLog").decode(errors="replace"))
    with open(output, "wb") as file:
        file.write(get(result).rstrip(b"\0") if kind == "ptx" else get(result))


main(*sys.argv[1:])
