# SPDX-License-Identifier: MIT
"""mandoc on the manual pages, shellcheck on the scripts."""

import subprocess
import sys

import surfaces


def scripts():
    """Files of the tree (not of build/) whose first line names bash, and the bash completion."""
    found = [surfaces.ROOT / "completions/klock.bash"]
    for directory in ("packaging", "tests", ".ci"):
        for path in sorted((surfaces.ROOT / directory).rglob("*")):
            if path.is_file() and path.open("rb").readline().rstrip().endswith((b"bash", b"bin/sh")):
                found.append(path)
    return found


def main():
    checks = [["mandoc", "-T", "lint", "-W", "warning", page] for page in sorted((surfaces.ROOT / "man").iterdir())]
    files = scripts()
    assert surfaces.ROOT / "tests/run" in files
    checks += [["shellcheck", "--shell=bash", path] for path in files]
    failed = False
    for check in checks:
        ran = subprocess.run(check, capture_output=True, text=True, timeout=60)
        if ran.returncode != 0:
            failed = True
            print(ran.stdout + ran.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
