"""An open linker for CUDA device code.

link() makes a cubin of objects in memory or in files, DeviceLink a fat binary for several
architectures, and preload() puts culd's libnvJitLink in the place of NVIDIA's for this process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _culd
from ._culd import CuldError, DeviceLinked, Diagnostic, LinkError, OptionsError
from ._places import library, nvvm_option, places, preload, program

if TYPE_CHECKING:
    # Type checkers know it, and nothing has to be installed.
    from typing_extensions import Buffer

__all__ = [
    "CuldError",
    "DeviceLink",
    "DeviceLinked",
    "Diagnostic",
    "Input",
    "LinkError",
    "Linked",
    "OptionsError",
    "architectures",
    "library",
    "link",
    "preload",
    "program",
]

__version__: str = _culd.VERSION

#: An input: its bytes, a path, or bytes with a name for messages.
Input = Union["Buffer", str, "os.PathLike[str]", tuple[Union[str, "os.PathLike[str]"], "Buffer"]]
#: A word of the command line.
Word = Union[str, "os.PathLike[str]"]


class Linked:
    """A linked program."""

    __slots__ = ("_linked", "_report")

    def __init__(self, linked: _culd.Linked) -> None:
        self._linked = linked
        self._report: dict[str, Any] | None = None

    @property
    def cubin(self) -> bytes:
        """The linked cubin, as the CUDA driver loads it."""
        return self._linked.cubin

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Warnings and infos, in order."""
        return self._linked.diagnostics

    @property
    def report(self) -> dict[str, Any]:
        """The report of `culd --report`: sections, kernels, calls, what was removed and why."""
        if self._report is None:
            self._report = json.loads(self._linked.report_json)
        return self._report

    def __repr__(self) -> str:
        return repr(self._linked)


def link(
    inputs: Iterable[Input],
    arch: str | None = None,
    options: str | Sequence[Word] = (),
    *,
    libraries: Sequence[str] = (),
) -> Linked:
    """Links `inputs` for `arch`, such as "sm_90", in this process.

    `options` are words of the command line, in a list or separated by spaces: `culd --help` lists
    them. `libraries` are names as for `-l`; `-L` among the options says where they are.

    Raises LinkError with all messages if the link fails, and OptionsError for bad options. Other
    Python threads run during the link.
    """
    words = _words(arch, options)
    return Linked(_culd.link(inputs, words, list(libraries), places()))


def architectures() -> list[str]:
    """The names of all architectures that a link can be for."""
    return _culd.architectures()


class DeviceLink:
    """A device link for several architectures, as by `nvcc -dlink`.

    >>> link = culd.DeviceLink(["sm_80", "sm_90"]).add("a.o", "b.o").link()
    >>> open("dlink.o", "wb").write(link.host_object())
    """

    def __init__(self, archs: Iterable[str], options: str | Sequence[Word] = ()) -> None:
        """A device link for `archs` without inputs so far; `options` as for link()."""
        if isinstance(archs, str):
            raise TypeError("archs is a list, not a single architecture")
        self._links = [_words(arch, options) for arch in archs]
        self._inputs: list[Input] = []

    def add(self, *inputs: Input) -> DeviceLink:
        """Adds inputs, which are linked in this order."""
        self._inputs.extend(inputs)
        return self

    def link(self) -> DeviceLinked:
        """Links for all architectures, from inputs that are opened once."""
        return _culd.device_link(self._inputs, self._links, places())


def _words(arch: str | None, options: str | Sequence[Word]) -> list[str]:
    given = options.split() if isinstance(options, str) else options
    words = [os.fsdecode(word) for word in given]
    names = {word.lstrip("-").partition("=")[0] for word in words if word.startswith("-")}
    if names & {"dlto", "link-time-opt", "lto"} and "nvvmpath" not in names:
        # nvlink wants to know where libnvvm is: in NVIDIA's package, if that is installed.
        words += nvvm_option()
    return words if arch is None else [f"-arch={arch}", *words]
