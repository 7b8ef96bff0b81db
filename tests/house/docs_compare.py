# SPDX-License-Identifier: MIT
"""--help, the manual pages, README.md and the sample configuration agree on options, exit statuses and keys; and what the
pages refer to is there.

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


def options_of(pages, subcommand):
    """Those that the page of a subcommand describes. One without a page of its own has none."""
    return surfaces.man_options(pages.get(f"klock-{subcommand}(1)", ""), subcommand)


def compare_help_with_man(helps, pages):
    """helps: {subcommand or None: options}; pages: {name: source}."""
    everywhere = surfaces.man_options(pages["klock(1)"])
    found = differences(helps[None], "klock --help", everywhere, "klock(1)")
    for subcommand, options in helps.items():
        if subcommand is None:
            continue
        own = {option: value for option, value in options.items() if option not in helps[None]}
        described = options_of(pages, subcommand)
        found += differences(own, f"klock {subcommand} --help", described, f"klock-{subcommand}(1)")
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


def compare_subcommands(top_help, pages):
    """klock(1) lists all; each has a page, or is described there."""
    in_help = set(re.findall(r"^  ([a-z-]+)  ", top_help, re.M))
    listed = set(re.findall(r"^\.It Xr klock-([a-z-]+) 1$", pages["klock(1)"], re.M))
    described = set(re.findall(r"^\.Nm\n\.Cm ([a-z-]+)$", pages["klock(1)"], re.M))
    named = {name[len("klock-"):-len("(1)")] for name in pages if re.fullmatch(r"klock-.*\(1\)", name)}
    return differences(in_help, "klock --help", listed | described, "klock(1)") + differences(
        listed, "klock(1)", named, "the names of the pages"
    )


def broken_references(pages):
    found = set()
    for source in pages.values():
        title = re.search(r"^\.Dt (.*)$", source, re.M).group(1)
        headings = re.findall(r"^\.S[hs] (.*)$", source, re.M)
        for heading in re.findall(r"^\..*\bSx (.*?)(?: [.,:;])*$", source, re.M):
            if heading not in headings:
                found.add(f"{title}: there is no {heading}")
        for name, section in re.findall(r"^\..*\bXr (klock\S*) (\d)", source, re.M):
            if f"{name}({section})" not in pages:
                found.add(f"{title}: there is no {name}({section})")
    return sorted(found)


def sample_configuration(text):
    """Every line of the sample, uncommented, except one of two that exclude each other; and its keys."""
    lines = [line[1:] for line in text.splitlines() if re.match(r"#[a-z-]+ = ", line)]
    return lines, {line.split(" = ")[0] for line in lines}


# Keys that are refused one without the other.
PAIRS = {"tls-cert": "tls-key", "tls-key": "tls-cert"}


def check_sample(man):
    lines, keys = sample_configuration((surfaces.ROOT / "packaging/klock.toml").read_text())
    section = surfaces.man_section(man, "CONFIGURATION")
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
    pages = surfaces.man_pages()
    readme = (surfaces.ROOT / "README.md").read_text()
    return (
        compare_help_with_man(helps, pages)
        + compare_readme(helps, readme)
        + compare_statuses(pages["klock(1)"], readme)
        + compare_subcommands(texts[None], pages)
        + broken_references(pages)
        + check_sample(pages["klock(1)"])
        + compare_keys()
    )


def self_test():
    pages = surfaces.man_pages()
    top = surfaces.help_options("  -q, --quiet   less\n      --url URL   the store\n")
    assert top == {"-q": False, "--quiet": False, "--url": True}, top
    assert options_of(pages, "run")["--wait"] is True
    assert options_of(pages, "run")["-n"] is False
    assert set(options_of(pages, "check")) == {"--left", "--token", "--token-file"}
    assert surfaces.readme_options("## Options\n\n| `-E`, `--code N` | x |\n") == {"-E": True, "--code": True}
    assert differences({"-a": True}, "l", {}, "r") == ["-a: in l, not in r"]
    assert differences({}, "l", {"-a": True}, "r") == ["-a: in r, not in l"]
    assert len(differences({"-a": True}, "l", {"-a": False}, "r")) == 1
    helps = {None: surfaces.man_options(pages["klock(1)"])}
    for subcommand in surfaces.SUBCOMMANDS:
        helps[subcommand] = {**helps[None], **options_of(pages, subcommand)}
    assert not compare_help_with_man(helps, pages)
    del helps["run"]["--ttl"]
    helps["list"]["--new"] = False
    helps["completion"]["--new"] = False
    assert len(compare_help_with_man(helps, pages)) == 3
    top_help = "".join(f"  {subcommand}  x\n" for subcommand in surfaces.SUBCOMMANDS)
    assert not compare_subcommands(top_help, pages)
    assert len(compare_subcommands(top_help + "  new  x\n", pages)) == 1
    assert len(compare_subcommands(top_help, {**pages, "klock-new(1)": ""})) == 1
    assert len(compare_subcommands(top_help, {name: pages[name] for name in pages if name != "klock-list(1)"})) == 1
    statuses = surfaces.man_statuses(pages["klock(1)"])
    assert len(differences(statuses - {79}, "l", statuses, "r")) == 1
    page = ".Dt X 1\n.Sh A B\n.Pq Sx A B ;\n.Xr klock-x 1 ,\n"
    assert not broken_references({"klock-x(1)": page})
    assert len(broken_references({"klock-x(1)": page + ".Sx C .\n.Xr klock-x 7\n"})) == 2


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    found = compare_all()
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
