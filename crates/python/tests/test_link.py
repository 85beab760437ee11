"""Links through the module: the same bytes as the command's, errors, inputs of every kind."""

from __future__ import annotations

import array
import json
import mmap
import os
import pickle
import platform
import subprocess
from pathlib import Path

import pytest

import culd


def by_command(arguments: list[str], output: Path) -> bytes:
    """The cubin that the command of this package makes."""
    subprocess.run([culd.program(), *arguments, "-o", str(output)], check=True)
    return output.read_bytes()


def test_files_give_the_bytes_of_the_command(pair: list[str], tmp_path: Path) -> None:
    linked = culd.link(pair, arch="sm_90")
    assert linked.cubin == by_command(["-arch=sm_90", *pair], tmp_path / "out")
    assert linked.diagnostics == []
    assert linked.cubin is linked.cubin


def test_every_recorded_case_gives_the_bytes_of_the_command(cubins: Path, tmp_path: Path) -> None:
    cases = json.loads((cubins / "cases.json").read_text())
    same = failed = 0
    for case in cases:
        inputs = [str(cubins / name) for name in case["inputs"]]
        # The output's name is in the linker's note of a link with -g.
        options = ["-o", str(tmp_path / "out"), *case["options"]]
        command = [culd.program(), f"-arch={case['arch']}", *options, *inputs]
        (tmp_path / "out").unlink(missing_ok=True)
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            linked = culd.link(inputs, arch=case["arch"], options=options)
        except (culd.LinkError, culd.OptionsError) as error:
            assert run.returncode != 0, (case, str(error))
            # Every error is among the command's lines.
            for line in getattr(error, "diagnostics", []):
                assert line.severity not in ("error", "fatal") or line.text in run.stderr, case
            failed += 1
        else:
            assert run.returncode == 0, (case, run.stderr)
            assert linked.cubin == (tmp_path / "out").read_bytes(), case
            same += 1
    print(f"{same} the same, {failed} refused by both")
    assert same > 200 and failed > 20, (same, failed)


def test_bytes_of_every_type_are_inputs(pair: list[str], tmp_path: Path) -> None:
    expected = culd.link(pair, arch="sm_90").cubin
    saxpy, smooth = (Path(path).read_bytes() for path in pair)
    for other in (smooth, bytearray(smooth), memoryview(smooth), ("smooth", smooth), Path(pair[1])):
        assert culd.link([saxpy, other], arch="sm_90").cubin == expected
    with (tmp_path / "smooth").open("w+b") as file:
        file.write(smooth)
        file.flush()
        with mmap.mmap(file.fileno(), 0) as mapped:
            assert culd.link([saxpy, mapped], arch="sm_90").cubin == expected
    assert culd.link([saxpy, array.array("B", smooth)], arch="sm_90").cubin == expected
    # A slice with steps is no row of bytes in memory.
    stretched = bytes(byte for pair in zip(smooth, smooth) for byte in pair)
    assert culd.link([saxpy, memoryview(stretched)[::2]], arch="sm_90").cubin == expected


def test_options_are_words_of_the_command_line(pair: list[str], tmp_path: Path) -> None:
    expected = by_command(["-arch=sm_90", "-r", *pair], tmp_path / "out")
    assert culd.link(pair, arch="sm_90", options="-r").cubin == expected
    assert culd.link(pair, options=["-arch=sm_90", "-r"]).cubin == expected
    assert culd.link(pair, arch="sm_90").cubin != expected


def test_paths_are_any_bytes(pair: list[str], tmp_path: Path) -> None:
    expected = culd.link(pair, arch="sm_90").cubin
    for name in ("a b", "ä 日本", os.fsdecode(b"x\xff\xfe"), "new\nline", "'quotes'", "@r", "-o"):
        folder = tmp_path / name
        folder.mkdir()
        copies = [folder / Path(path).name for path in pair]
        for path, copy in zip(pair, copies):
            copy.write_bytes(Path(path).read_bytes())
        assert culd.link(copies, arch="sm_90").cubin == expected, name
        named = [(copy, copy.read_bytes()) for copy in copies]
        assert culd.link(named, arch="sm_90").cubin == expected, name
        texts: list[list[str]] = []
        for inputs in (copies[:1], named[:1]):
            with pytest.raises(culd.LinkError) as caught:
                culd.link(inputs, arch="sm_90")
            texts.append([line.text for line in caught.value.diagnostics])
        # Bytes with the name of a file have the messages of the file.
        assert texts[0] == texts[1] and copies[0].name in texts[0][0], name


def test_libraries_are_found_by_name(pair: list[str], tmp_path: Path) -> None:
    member = Path(pair[1]).read_bytes()
    head = f"{'smooth.o/':16}{0:<12}{0:<6}{0:<6}{644:<8}{len(member):<10}`\n"
    archive = b"!<arch>\n" + head.encode() + member + b"\n" * (len(member) % 2)
    (tmp_path / "libsmooth.a").write_bytes(archive)
    places: list[list[str | Path]] = [[f"-L{tmp_path}"], ["-L", tmp_path]]
    for options in places:
        linked = culd.link(pair[:1], "sm_90", options, libraries=["smooth"])
        functions = [function["name"] for function in linked.report["images"][0]["functions"]]
        assert functions == ["saxpy", "smooth"]


def test_a_failed_link_has_all_its_messages(pair: list[str]) -> None:
    with pytest.raises(culd.LinkError) as caught:
        culd.link([("first", Path(pair[0]).read_bytes())], arch="sm_90")
    errors = [line for line in caught.value.diagnostics if line.severity == "error"]
    assert [line.text for line in errors] == [
        "Undefined reference to 'smooth' in 'first'",
        "Undefined reference to 'offset' in 'first'",
    ]
    assert errors[0].notes and str(errors[0]) in str(caught.value)
    assert isinstance(caught.value, culd.CuldError)
    # Build systems hand errors from process to process.
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is culd.LinkError
    assert copy.diagnostics == caught.value.diagnostics and str(copy) == str(caught.value)


def test_wrong_calls_are_exceptions(pair: list[str], tmp_path: Path) -> None:
    for arch, options in (("sm_9", ()), ("sm_90", ("--bogus",)), ("compute_90", ()), (None, ())):
        with pytest.raises(culd.OptionsError):
            culd.link(pair, arch, options)
    for inputs in (pair[0], b"bytes", [3], [("name", "text")], [("a", b"", 1)], 3):
        with pytest.raises((TypeError, ValueError)):
            culd.link(inputs, arch="sm_90")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a list"):
        culd.DeviceLink("sm_90")
    half = Path(pair[0]).read_bytes()[:500]
    for given in (str(tmp_path / "missing.o"), half, ("half", half)):
        with pytest.raises(culd.LinkError):
            culd.link([given], arch="sm_90")
    ignored = culd.link([*pair, b"text"], arch="sm_90").diagnostics
    assert [line.severity for line in ignored] == ["warning"] and "input 2" in ignored[0].text


def test_the_report_is_that_of_the_command(pair: list[str], tmp_path: Path) -> None:
    report = culd.link(pair, arch="sm_90").report
    by_command([f"--report={tmp_path / 'report.json'}", "-arch=sm_90", *pair], tmp_path / "out")
    expected = json.loads((tmp_path / "report.json").read_text())
    assert report["images"] == expected["images"]
    assert report["inputs"] == expected["inputs"]


def test_a_device_link_makes_the_objects_of_the_command(pair: list[str], tmp_path: Path) -> None:
    # The words that nvcc adds, which stand in the linker's note.
    words = f"-m64 -lcudadevrt -cpu-arch={platform.machine().upper()}"
    linked = culd.DeviceLink(["sm_90"], words).add(*pair).link()
    arguments = [culd.program(), "device-link", "-arch=sm_90", *pair, "-o"]
    subprocess.run([*arguments, str(tmp_path / "fatbin"), "-fatbin"], check=True)
    assert linked.fatbin() == (tmp_path / "fatbin").read_bytes()
    from_bytes = culd.DeviceLink(["sm_90"], words).add(*(Path(path).read_bytes() for path in pair))
    assert from_bytes.link().fatbin() == linked.fatbin()
    assert linked.host_object("x86_64").endswith(linked.fatbin())
    assert linked.host_object("aarch64") != linked.host_object("x86_64")
    with pytest.raises(ValueError):
        linked.host_object("z80")
    with pytest.raises(culd.LinkError) as caught:
        culd.DeviceLink(["sm_80", "sm_90"]).add(*pair).link()
    assert caught.value.diagnostics


def test_the_module_knows_its_architectures() -> None:
    archs = culd.architectures()
    assert {"sm_75", "sm_90a", "sm_100f", "sm_121"} <= set(archs)
    assert culd.__version__ in subprocess.check_output([culd.program(), "--version"], text=True)
