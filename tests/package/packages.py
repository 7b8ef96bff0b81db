# SPDX-License-Identifier: MIT
"""The packages, built from the release preset, and what is in them."""

import os
import pathlib
import subprocess

TOP = pathlib.Path(__file__).parents[2]
RELEASE = TOP / "build/release"
# Where zsh looks for completions.
ZSH_OF_DEBIAN, ZSH_OF_OTHERS = "/usr/share/zsh/vendor-completions", "/usr/share/zsh/site-functions"


def said_by(*command, timeout=300):
    ran = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=timeout)
    assert ran.returncode == 0, f"{command}: status {ran.returncode}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def build(directory):
    """{DEB: path, RPM: ..., TGZ: ...}."""
    said_by("cmake", "--preset", "release")
    said_by("cmake", "--build", "--preset", "release", timeout=3600)
    endings = {"DEB": "*.deb", "RPM": "*.rpm", "TGZ": "*.tar.gz"}
    for generator in endings:
        said_by("cpack", "--config", RELEASE / "CPackConfig.cmake", "-G", generator, "-B", directory)
    found = {generator: list(directory.glob(ending)) for generator, ending in endings.items()}
    assert all(len(paths) == 1 for paths in found.values()), found
    return {generator: paths[0] for generator, paths in found.items()}


def next_version(deb, directory):
    """The same, with a higher version and another default configuration."""
    tree, made = directory / "next", directory / "next.deb"
    said_by("dpkg-deb", "--raw-extract", deb, tree)
    control = tree / "DEBIAN/control"
    version = said_by("dpkg-deb", "--field", deb, "Version").strip()
    text = control.read_text()
    assert f"Version: {version}\n" in text
    control.write_text(text.replace(f"Version: {version}\n", "Version: 999-1\n"))
    with open(tree / "etc/klock/klock.toml", "a") as file:
        file.write("# the next default\n")
    said_by("dpkg-deb", "--root-owner-group", "--build", tree, made)
    return made


def deb_files(deb):
    """{path: mode and owner} of all but directories."""
    lines = [line.split(maxsplit=5) for line in said_by("dpkg-deb", "--contents", deb).splitlines()]
    return {name[1:]: f"{mode} {owner}" for mode, owner, _, _, _, name in lines if not mode.startswith("d")}


def rpm_files(rpm):
    query = "[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES}\\n]"
    lines = [line.split(maxsplit=2) for line in said_by("rpm", "-qp", "--qf", query, rpm).splitlines()]
    return {name: f"{mode} {owner}" for mode, owner, name in lines if not mode.startswith("d")}


def check_deb(deb):
    print(said_by("lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", deb), end="")
    modes = deb_files(deb)
    assert modes.pop("/usr/bin/klock") == "-rwxr-xr-x root/root"
    assert set(modes.values()) == {"-rw-r--r-- root/root"}, modes


def check_rpm(rpm, deb):
    said_by("rpm", "-K", "--nosignature", rpm)
    only_debian = ("/usr/share/lintian/", "/usr/share/doc/klock/changelog.Debian")
    expected = {name: mode for name, mode in deb_files(deb).items() if not name.startswith(only_debian)}
    expected[f"{ZSH_OF_OTHERS}/_klock"] = expected.pop(f"{ZSH_OF_DEBIAN}/_klock")
    assert rpm_files(rpm) == expected, (rpm_files(rpm), expected)
    flags = said_by("rpm", "-qp", "--qf", "[%{FILEFLAGS:fflags} %{FILENAMES}\\n]", rpm).splitlines()
    assert [line for line in flags if line.startswith("c")] == ["cn /etc/klock/klock.toml"], flags  # config(noreplace)


def check_tarball(tarball, directory):
    """It runs from where it is unpacked, and needs no library."""
    said_by("tar", "-xf", tarball, "-C", directory)
    (top,) = [path for path in directory.glob("klock-*") if path.is_dir()]
    klock = top / "bin/klock"
    assert "INTERP" not in said_by("readelf", "--program-headers", "--wide", klock)
    assert said_by(klock, "run", "--url", f"local:{directory}", "tarball", "--", "echo", "hi") == "hi\n"
    assert os.path.exists(top / "share/zsh/site-functions/_klock")
    assert os.path.exists(top / "share/man/man1/klock-run.1.gz") and not os.path.exists(top / "etc")
