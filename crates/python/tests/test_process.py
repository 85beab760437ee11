"""What the module does to its process: threads, memory, time, and libraries that are loaded."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

import culd
from conftest import QUICKSTART


def resident() -> int:
    """The memory of this process, in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_threads_link_at_the_same_time(pair: list[str]) -> None:
    expected = culd.link(pair, arch="sm_90").cubin
    images = [Path(path).read_bytes() for path in pair]
    wrong: list[object] = []

    def work() -> None:
        for _ in range(200):
            linked = culd.link(images, arch="sm_90")
            if linked.cubin != expected or linked.report["images"][0]["functions"] == []:
                wrong.append(linked)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_other_threads_run_during_a_link(pair: list[str]) -> None:
    # A link that takes a while: it reads its first input from a pipe, which this thread feeds. A
    # link that held the interpreter would never see the end of it.
    reader, writer = os.pipe()
    done: list[bytes] = []
    inputs = [f"/dev/fd/{reader}", pair[1]]
    thread = threading.Thread(target=lambda: done.append(culd.link(inputs, arch="sm_90").cubin))
    thread.start()
    time.sleep(0.1)
    assert done == []
    os.write(writer, Path(pair[0]).read_bytes())
    os.close(writer)
    thread.join(timeout=20)
    os.close(reader)
    assert len(done) == 1


def test_memory_does_not_grow(pair: list[str]) -> None:
    images = [Path(path).read_bytes() for path in pair]

    def links(count: int) -> None:
        for number in range(count):
            linked = culd.link(images, arch="sm_90")
            assert linked.cubin[:4] == b"\x7fELF"
            if number % 10 == 0:
                assert linked.report
                with pytest.raises(culd.LinkError):
                    culd.link(images[:1], arch="sm_90")

    count = int(os.environ.get("CULD_LINKS", "5000"))
    links(2000)
    before = resident()
    links(count)
    grown = resident() - before
    print(f"{grown / 1024:.0f} KiB more after {count} links")
    # A leak of one image or report a link would be 30 MB and more.
    assert grown < 2 << 20


def median_us(call: Callable[[], object], count: int = 300) -> float:
    """How long a call takes, in microseconds."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times) * 1e6


def test_python_adds_little_time(pair: list[str]) -> None:
    # The module's whole work but the link: a link that ends at its first input takes the same way.
    if os.environ.get("CULD_EMULATED"):
        pytest.skip("the times of an emulator say nothing of Python")
    images = [Path(path).read_bytes() for path in pair]
    empty = median_us(lambda: pytest.raises(culd.OptionsError, culd.link, images, "sm_9"))
    print(f"a call that does not link {empty:.0f} us")
    assert culd._culd.VERSION
    assert empty < 100


def test_a_link_costs_what_it_costs_in_rust(pair: list[str]) -> None:
    program = os.environ.get("CULD_REPEAT")
    if program is None:
        pytest.skip("CULD_REPEAT names no program: 'cargo xtask python --time' does")
    images = [Path(path).read_bytes() for path in pair]
    rust, python = [], []
    # In turns, so that a busy machine is busy for both.
    for _ in range(9):
        rust.append(float(subprocess.check_output([program, "300", "sm_90", *pair])))
        python.append(median_us(lambda: culd.link(images, arch="sm_90").cubin))
    print(f"a link: {median(python):.0f} us from Python, {median(rust):.0f} us from Rust")
    assert median(python) < median(rust) + 100


def in_fresh_python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs `code` in another process."""
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("release", [13, 12])
def test_a_preloaded_library_is_found_by_its_name(release: int) -> None:
    name = f"libnvJitLink.so.{release}"
    code = (
        f"import culd, ctypes; culd.preload({release}); culd.preload({release})\n"
        f"library = ctypes.CDLL({name!r})\n"
        "assert library.nvJitLinkVersion\n"
        "files = {line.split()[-1] for line in open('/proc/self/maps') if 'nvJitLink' in line}\n"
        f"print([file for file in files if file.endswith({name!r})])"
    )
    run = in_fresh_python(code)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == repr([culd.library(release)])
    # Without packages of NVIDIA's it is the newest.
    assert in_fresh_python("import culd; culd.preload()").returncode == 0


def test_a_library_that_is_loaded_already_is_an_error(tmp_path: Path) -> None:
    other = tmp_path / "libnvJitLink.so.13"
    other.write_bytes(Path(culd.library(13)).read_bytes())
    code = f"import culd, ctypes; ctypes.CDLL({str(other)!r}); culd.preload()"
    run = in_fresh_python(code)
    assert run.returncode != 0 and "is loaded already" in run.stderr, run.stderr


def test_a_program_runs_as_if_python_ran_it(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("VALUE = 7\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, helper\n"
        "assert __name__ == '__main__' and __file__ == sys.argv[0]\n"
        "loaded = [l for l in open('/proc/self/maps') if 'libnvJitLink.so.13' in l]\n"
        "print(sys.argv[1:], helper.VALUE, bool(loaded))\n"
        "sys.exit(3)\n"
    )
    command = [sys.executable, "-m", "culd", "run", str(program), "a", "--b"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (3, "['a', '--b'] 7 True\n"), run.stderr
    command = [sys.executable, "-m", "culd", "run", "-m", "helper"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stderr


def test_a_program_finds_the_modules_that_python_finds(tmp_path: Path) -> None:
    # The working folder has a module that no program shall get by `python PROGRAM`.
    work, real, whole = tmp_path / "work", tmp_path / "real", tmp_path / "whole"
    for folder, value in ((work, "work"), (real, "real"), (whole, "whole")):
        folder.mkdir()
        (folder / "helper.py").write_text(f"VALUE = {value!r}\n")
    lines = (
        "try:\n    import helper\n    print(helper.VALUE)\n"
        "except ImportError:\n    print('none')\n"
    )
    for file in (real / "program.py", whole / "__main__.py", work / "module.py"):
        file.write_text(lines)
    (tmp_path / "alone.py").write_text(lines)
    (work / "link.py").symlink_to(real / "program.py")

    def said(*words: str) -> str:
        command = [sys.executable, "-B", *words]
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=work)
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()

    expected = [
        (["../real/program.py"], "real"),
        (["link.py"], "real"),
        (["../alone.py"], "none"),
        (["../whole"], "whole"),
        (["-m", "module"], "work"),
    ]
    for words, value in expected:
        assert said(*words) == value, words
        assert said("-m", "culd", "run", *words) == value, words
    # Isolated, Python searches no folder of the program.
    assert said("-I", "-m", "culd", "run", "link.py") == "none"


def test_module_commands() -> None:
    def said(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "culd", *words]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        return run.returncode, run.stdout.strip()

    assert said("library") == (0, culd.library(13))
    assert said("library", "12") == (0, culd.library(12))
    assert said("program", "culd-dump") == (0, culd.program("culd-dump"))
    assert said("--version") == (0, f"culd {culd.__version__}")
    for words in ((), ("run",), ("bogus",), ("library", "11"), ("run", "-m")):
        assert said(*words)[0] == 2, words


def test_every_program_of_the_package_starts() -> None:
    for name in ("culd", "culd-lto", "culd-dump", "culd-diff"):
        assert "usage" in subprocess.check_output([culd.program(name), "--help"], text=True)
    dump = subprocess.check_output([culd.program("culd-dump"), str(QUICKSTART / "smooth.cubin")])
    assert b"smooth" in dump
    assert ctypes.CDLL(culd.library(13)).nvJitLinkVersion
