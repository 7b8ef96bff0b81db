# SPDX-License-Identifier: MIT
"""What README.md says of klock's costs has the rows and columns that tests/bench/bench.py --readme prints.

--self-test: the comparison finds a row, a column and a table that differ."""

import re
import sys

import surfaces

sys.path.insert(0, str(surfaces.ROOT / "tests/bench"))
import readme  # noqa: E402


def tables(text):
    """[(names of the columns, names of the rows)] of the tables in Markdown."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        lines = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in block.splitlines()]
        found.append((tuple(lines[0]), tuple(line[0] for line in lines[2:])))
    return found


def printed():
    return [
        (readme.HEAD, tuple(row.name for row in readme.FIGURES)),
        (readme.GROWTH_HEAD, tuple(row.name for row in readme.GROWTH)),
    ]


def differences(page):
    parts = re.findall(f"{re.escape(readme.BEGIN)}\n(.*?){re.escape(readme.END)}", page, re.S)
    if len(parts) != 1:
        return [f"README.md: {len(parts)} parts between {readme.BEGIN} and {readme.END}, not one"]
    here, there = tables(parts[0]), printed()
    if len(here) != len(there):
        return [f"README.md has {len(here)} tables of costs, bench.py prints {len(there)}"]
    found = []
    for kind, (mine, its) in zip(("column", "row") * len(here), zip(sum(here, ()), sum(there, ()))):
        found += [f"{kind} {name!r}: in README.md, not printed by bench.py" for name in mine if name not in its]
        found += [f"{kind} {name!r}: printed by bench.py, not in README.md" for name in its if name not in mine]
        if not found and mine != its:
            found.append(f"{kind}s in another order: {', '.join(mine)}")
    return found


def self_test():
    whole = [readme.markdown(head, [[name] + ["1"] * (len(head) - 1) for name in names]) for head, names in printed()]
    page = lambda *parts: "\n\n".join((readme.BEGIN, *parts, readme.END))
    assert not differences(page(*whole)), differences(page(*whole))
    assert differences("no costs at all")
    assert len(differences(page(whole[0]))) == 1
    row = whole[0].splitlines(keepends=True)[3]
    assert len(differences(page(whole[0].replace(row, ""), whole[1]))) == 1
    assert len(differences(page(whole[0].replace(row, row + "| one more | 1 | 1 | 1 | 1 |\n"), whole[1]))) == 1
    assert len(differences(page(whole[0].replace("best neighbour", "neighbour"), whole[1]))) == 2
    first = whole[0].splitlines(keepends=True)[2]
    assert differences(page(whole[0].replace(row, "").replace(first, row + first), whole[1]))


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    found = differences((surfaces.ROOT / "README.md").read_text())
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
