# SPDX-License-Identifier: MIT
"""Reads the options out of --help, the manual pages and README.md. An option is "-w" or "--wait"; each reader returns
{option: whether it takes a value}."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUBCOMMANDS = (
    "run", "acquire", "renew", "check", "release", "wait", "status", "list", "watch", "force-release", "log", "stats",
    "once", "doctor", "completion"
)


def help_text(subcommand=None):
    command = [os.environ["KLOCK"]] + ([subcommand] if subcommand else []) + ["--help"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


def parse_spec(spec):
    """ "-w, --wait D" -> {"-w": True, "--wait": True} """
    options = re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", spec)
    rest = re.sub(r"(?<![\w-])--?[A-Za-z][\w-]*", "", spec)
    takes_value = bool(re.search(r"\w", rest))
    return {option: takes_value for option in options}


def help_options(text):
    options = {}
    for line in text.splitlines():
        if re.match(r"\s+-", line):
            options.update(parse_spec(re.split(r"\s{2,}", line.strip())[0]))
    return options


def man_pages():
    """{"klock-renew(1)": source}: a page is there under each of its names."""
    pages = {}
    for path in sorted((ROOT / "man").iterdir()):
        source = path.read_text()
        for name in re.findall(r"^\.Nm (\S+)", man_section(source, "NAME"), re.M):
            pages[f"{name}({path.suffix[1:]})"] = source
    return pages


def man_section(source, heading):
    """The text of `.Sh HEADING`; empty if there is none."""
    found = re.search(rf"^\.Sh {heading}$(.*?)(^\.Sh |\Z)", source, re.M | re.S)
    return found.group(1) if found else ""


def man_options(source, subcommand=None):
    """Those under OPTIONS; of a page for several subcommands those under `.Ss klock SUBCOMMAND` there."""
    part = man_section(source, "OPTIONS")
    if re.search(r"^\.Ss ", part, re.M):
        found = re.search(rf"^\.Ss klock {subcommand}$(.*?)(^\.Ss |\Z)", part, re.M | re.S)
        part = found.group(1) if found else ""
    options = {}
    for item in re.findall(r"^\.It (Fl .*)$", part, re.M):
        spec = re.sub(r"\b(Ar|Cm)\b", "", item)
        spec = re.sub(r"\bFl (-?[A-Za-z][\w-]*)", r"-\1", spec)
        options.update(parse_spec(spec))
    return options


def readme_options(text):
    """The first column of the table under "## Options"."""
    section = re.search(r"^## Options$(.*?)(^## |\Z)", text, re.M | re.S).group(1)
    options = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            cell = line.replace("\\|", "/").split("|")[1]
            options.update(parse_spec(cell.replace("`", "")))
    return options


def header_statuses():
    source = (ROOT / "src/util/exit_status.hpp").read_text()
    return {int(value) for value in re.findall(r"k_exit_\w+ = (\d+)", source)}


def man_statuses(source):
    return {int(value) for value in re.findall(r"^\.It (\d+)", man_section(source, "EXIT STATUS"), re.M)}


def readme_statuses(text):
    section = re.search(r"^## Exit status$(.*?)(^## |\Z)", text, re.M | re.S).group(1)
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    return {int(value) for cell in cells for value in re.findall(r"\d+", cell)}
