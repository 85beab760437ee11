"""Runs the calls of a list against a libnvJitLink: see README.md.

Use: calls.py LIBRARY LIST ARCH, in the folder with the inputs; images go to the folder named by OUT in the environment.
Prints what calls.c prints.
"""

import ctypes
import os
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_void_p


class Library:
    def __init__(self, path):
        self.functions = ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)

    def __getattr__(self, name):
        # As Python programs do: without a release in the name.
        function = self.functions["nvJitLink" + name]
        function.restype = c_int
        return function


class Calls:
    def __init__(self, library, out):
        self.lib = Library(library)
        self.out = out
        self.handle = c_void_p()
        # NVIDIA's library keeps no copy of names.
        self.names = []

    def say(self, text):
        out = sys.stdout.buffer
        out.write(text if isinstance(text, bytes) else text.encode())
        out.flush()

    def create(self, *options):
        words = (c_char_p * len(options))(*[word.encode() for word in options])
        self.handle = c_void_p()
        code = self.lib.Create(byref(self.handle), c_uint32(len(options)), words)
        self.say(f"create: {code}\n")

    def add(self, what, kind, name, data):
        name = None if name == "-" else name.encode()
        self.names.append(name)
        code = self.lib.AddData(self.handle, c_int(int(kind)), data, c_size_t(len(data)), name)
        self.say(f"{what}: {code}\n")

    def data(self, kind, name, path):
        with open(path, "rb") as file:
            self.add("data", kind, name, file.read())

    def cut(self, kind, name, path, size):
        with open(path, "rb") as file:
            self.add("cut", kind, name, file.read()[: int(size)])

    def text(self, kind, name, word):
        self.add("text", kind, name, word.encode() * 100)

    def file(self, kind, path):
        code = self.lib.AddFile(self.handle, c_int(int(kind)), path.encode())
        self.say(f"file: {code}\n")

    def complete(self):
        self.say(f"complete: {self.lib.Complete(self.handle)}\n")

    def result(self, what, name, size_of, get):
        size = c_size_t()
        code = size_of(self.handle, byref(size))
        if code:
            return self.say(f"{what}: {code}\n")
        buffer = ctypes.create_string_buffer(size.value + 1)
        code = get(self.handle, buffer)
        self.say(f"{what}: 0, {size.value} bytes, {code}\n")
        with open(os.path.join(self.out, f"{name}.{what}"), "wb") as file:
            file.write(buffer.raw[: size.value])

    def cubin(self, name):
        self.result("cubin", name, self.lib.GetLinkedCubinSize, self.lib.GetLinkedCubin)

    def ptx(self, name):
        self.result("ptx", name, self.lib.GetLinkedPtxSize, self.lib.GetLinkedPtx)

    def log(self, what, size_of, get):
        size = c_size_t()
        code = size_of(self.handle, byref(size))
        buffer = ctypes.create_string_buffer(size.value + 2)
        copied = get(self.handle, buffer)
        self.say(f"{what}: {code}, {copied}, {size.value} bytes\n")
        self.say(buffer.value)

    def logs(self):
        self.log("errors", self.lib.GetErrorLogSize, self.lib.GetErrorLog)
        self.log("infos", self.lib.GetInfoLogSize, self.lib.GetInfoLog)

    def null(self):
        lib, handle, none = self.lib, self.handle, c_void_p()
        size, number, byte = c_size_t(7), c_uint(), ctypes.create_string_buffer(b"x")
        sizes = [
            lib.GetLinkedCubinSize,
            lib.GetLinkedPtxSize,
            lib.GetErrorLogSize,
            lib.GetInfoLogSize,
        ]
        results = [lib.GetLinkedCubin, lib.GetLinkedPtx, lib.GetErrorLog, lib.GetInfoLog]
        words = ["null: create", lib.Create(None, c_uint32(0), None), "destroy", lib.Destroy(None)]
        words += ["complete", lib.Complete(none)]
        words += ["data", lib.AddData(none, c_int(1), byte, c_size_t(1), b"n")]
        words += ["file", lib.AddFile(none, c_int(1), b"n")]
        words += ["sizes"] + [function(none, byref(size)) for function in sizes]
        words += ["of a handle"] + [function(handle, None) for function in sizes]
        words += ["results"] + [function(handle, None) for function in results]
        words += ["before the end"] + [function(handle, byref(size)) for function in sizes[:2]]
        words += ["version", lib.Version(byref(number), None), size.value]
        self.say(" ".join(map(str, words)) + "\n")

    def destroy(self):
        code = self.lib.Destroy(byref(self.handle))
        is_null = int(not self.handle)
        self.say(f"destroy: {code} {is_null}, again {self.lib.Destroy(byref(self.handle))}\n")


def main(library, path, arch):
    calls = Calls(library, os.environ["OUT"])
    major, minor = c_uint(), c_uint()
    code = calls.lib.Version(byref(major), byref(minor))
    calls.say(f"version: {code} {major.value}.{minor.value}\n")
    with open(path) as file:
        for line in file.read().splitlines():
            if line.startswith("="):
                calls.say(line + "\n")
            elif line:
                what, *words = line.split()
                getattr(calls, what)(*[word.replace("@", arch) for word in words])


main(*sys.argv[1:])
