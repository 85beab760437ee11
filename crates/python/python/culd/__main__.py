"""`python -m culd run program.py`: a Python program with culd's libnvJitLink."""

from __future__ import annotations

import os
import pkgutil
import runpy
import sys

from . import __version__
from ._places import library, preload, program

USAGE = """\
usage: python -m culd run PROGRAM [ARGUMENT...]      run a Python program with culd's libnvJitLink
       python -m culd run -m MODULE [ARGUMENT...]    the same with a module
       python -m culd library [12|13]                print the path of libnvJitLink, for LD_PRELOAD
       python -m culd program [NAME]                 print the path of culd, or another program
       python -m culd --version
Started processes use NVIDIA's library again: LD_PRELOAD="$(python -m culd library)" is for them."""


def main(words: list[str]) -> int:
    """Runs the command in `words`; the exit status."""
    command, rest = (words[0], words[1:]) if words else ("", [])
    if command == "run" and rest:
        return _run(rest)
    if command == "library" and len(rest) <= 1 and set(rest) <= {"12", "13"}:
        print(library(*map(int, rest)))
    elif command == "program" and len(rest) <= 1:
        print(program(*rest))
    elif command == "--version":
        print(f"culd {__version__}")
    elif command in ("-h", "--help"):
        print(USAGE)
    else:
        print(USAGE, file=sys.stderr)
        return 2
    return 0


def _folder(program: str) -> str:
    return os.path.dirname(os.path.realpath(program))


def _run(words: list[str]) -> int:
    preload()
    if words[0] == "-m":
        if len(words) < 2:
            print(USAGE, file=sys.stderr)
            return 2
        sys.argv = words[1:]
        # `python -m culd` has put the working folder first, as `python -m` does for the module.
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
            # As by `python PROGRAM`: the program's folder, symbolic links followed, takes the place
            # of the working folder. A folder or an archive is searched itself.
            whole = pkgutil.get_importer(words[0]) is not None
            sys.path[0] = (os.path.abspath if whole else _folder)(words[0])
        runpy.run_path(words[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
