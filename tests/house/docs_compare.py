# SPDX-License-Identifier: MIT
"""--help, klock(1), README.md and the sample configuration agree on options, exit statuses and keys.

--self-test: the comparison finds a difference in each direction."""

import os
import re
import subprocess
import sys
import tempfile

import surfaces


def differences(left, left_name, right, right_name):
    found = []
    for here, here_name, there, there_name in ((left, left_name, right, right_name), (right, right_name, left, left_name)):
        found += [f"{item}: in {here_name}, not in {there_name}" for item in sorted(set(here) - set(there), key=str)]
    if isinstance(left, dict) and isinstance(right, dict):
        found += [
            f"{item}: takes a value in only one of {left_name} and {right_name}"
            for item in sorted(set(left) & set(right))
            if left[item] != right[item]
        ]
    return found


def compare_help_with_man(helps, man):
    """helps: {subcommand or None: options}; man: the source of the page."""
    everywhere = surfaces.man_options(man, "Global options")
    found = differences(helps[None], "klock --help", everywhere, "klock(1), Global options")
    for subcommand, options in helps.items():
        if subcommand is None:
            continue
        own = {option: value for option, value in options.items() if option not in helps[None]}
        described = surfaces.man_options(man, f"klock {subcommand}")
        found += differences(own, f"klock {subcommand} --help", described, f"klock(1), klock {subcommand}")
    return found


def compare_readme(helps, readme):
    everything = {option: value for options in helps.values() for option, value in options.items()}
    return differences(everything, "the --help texts", surfaces.readme_options(readme), "README.md")


def compare_statuses(man, readme):
    header = surfaces.header_statuses()
    in_man = surfaces.man_statuses(man)
    return differences(header, "exit_status.hpp", in_man, "klock(1)") + differences(
        header, "exit_status.hpp", surfaces.readme_statuses(readme) | {0}, "README.md"
    )


def compare_subcommands(top_help, man):
    in_help = re.findall(r"^  ([a-z-]+)  ", top_help, re.M)
    in_man = re.findall(r"^\.Ss klock ([a-z-]+)$", man, re.M)
    return differences(set(in_help), "klock --help", set(in_man), "klock(1)")


def sample_configuration(text):
    """Every line of the sample, uncommented, except one of two that exclude each other; and its keys."""
    lines = [line[1:] for line in text.splitlines() if re.match(r"#[a-z-]+ = ", line)]
    return lines, {line.split(" = ")[0] for line in lines}


# Keys that are refused one without the other.
PAIRS = {"tls-cert": "tls-key", "tls-key": "tls-cert"}


def check_sample(man):
    lines, keys = sample_configuration((surfaces.ROOT / "packaging/klock.toml").read_text())
    section = re.search(r"^\.Sh CONFIGURATION$(.*?)^\.Sh ", man, re.M | re.S).group(1)
    described = set(re.findall(r"[a-z-]+", " ".join(re.findall(r"^\.Li (.*)$", section, re.M))))
    found = differences(keys, "packaging/klock.toml", described, "klock(1), CONFIGURATION")
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{scratch}/klock.toml"
        for line in lines:
            with open(path, "w", encoding="utf8") as out:
                other = PAIRS.get(line.split(" = ")[0])
                out.write("\n".join([line] + [one for one in lines if one.split(" = ")[0] == other]) + "\n")
            ran = subprocess.run(
                [os.environ["KLOCK"], "list", "--config", path, "--url", f"local:{scratch}/locks"],
                capture_output=True, text=True, timeout=30, env={"PATH": "/usr/bin:/bin", "HOME": scratch},
            )
            if ran.returncode != 0:
                found.append(f"packaging/klock.toml: {line}: {ran.stderr.strip()}")
    return found


def compare_keys():
    """The parts of a lock in Redis: those in the code, and those in klock-protocol(7)."""
    code = (surfaces.ROOT / "src/store/redis/keys.cpp").read_text()
    page = (surfaces.ROOT / "man/klock-protocol.7").read_text()
    section = re.search(r"^\.Ss The other keys$(.*?)^\.El", page, re.M | re.S).group(1)
    described = {name.split(":")[0] for line in re.findall(r"^\.It Li (.*)$", section, re.M) for name in line.split(" , ")}
    return differences(set(re.findall(r'base \+ "(\w+)', code)), "keys.cpp", described, "klock-protocol(7)")


def compare_all():
    texts = {subcommand: surfaces.help_text(subcommand) for subcommand in (None,) + surfaces.SUBCOMMANDS}
    helps = {subcommand: surfaces.help_options(text) for subcommand, text in texts.items()}
    man = surfaces.man_source()
    readme = (surfaces.ROOT / "README.md").read_text()
    return (
        compare_help_with_man(helps, man)
        + compare_readme(helps, readme)
        + compare_statuses(man, readme)
        + compare_subcommands(texts[None], man)
        + check_sample(man)
        + compare_keys()
    )


def self_test():
    man = surfaces.man_source()
    top = surfaces.help_options("  -q, --quiet   less\n      --url URL   the store\n")
    assert top == {"-q": False, "--quiet": False, "--url": True}, top
    assert surfaces.man_options(man, "klock run")["--wait"] is True
    assert surfaces.man_options(man, "klock run")["-n"] is False
    assert surfaces.readme_options("## Options\n\n| `-E`, `--code N` | x |\n") == {"-E": True, "--code": True}
    assert differences({"-a": True}, "l", {}, "r") == ["-a: in l, not in r"]
    assert differences({}, "l", {"-a": True}, "r") == ["-a: in r, not in l"]
    assert len(differences({"-a": True}, "l", {"-a": False}, "r")) == 1
    helps = {None: surfaces.man_options(man, "Global options")}
    for subcommand in surfaces.SUBCOMMANDS:
        helps[subcommand] = {**helps[None], **surfaces.man_options(man, f"klock {subcommand}")}
    assert not compare_help_with_man(helps, man)
    del helps["run"]["--ttl"]
    helps["list"]["--new"] = False
    assert len(compare_help_with_man(helps, man)) == 2
    assert len(differences(surfaces.man_statuses(man) - {79}, "l", surfaces.man_statuses(man), "r")) == 1


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    found = compare_all()
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
