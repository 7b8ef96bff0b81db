# SPDX-License-Identifier: MIT
"""clang-format leaves every C++ file as it is."""

import subprocess
import sys

import surfaces


def main():
    files = [
        path
        for directory in ("src", "tests")
        for path in sorted((surfaces.ROOT / directory).rglob("*"))
        if path.suffix in (".hpp", ".cpp")
    ]
    assert files
    return subprocess.run(["clang-format", "--dry-run", "-Werror", *files], timeout=300).returncode


if __name__ == "__main__":
    sys.exit(main())
