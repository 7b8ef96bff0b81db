# SPDX-License-Identifier: MIT
"""Critical sections (`child section`) and the check that no two ever ran at once."""
import os
from typing import NamedTuple


class Section(NamedTuple):
    id: str
    begin: int
    end: int  # 0: it was killed
    fence: int


class Sections:
    def __init__(self, child, path):
        self.child, self.path = child, str(path)

    def command(self, name, msec=1):
        return [self.child, "section", self.path, name, str(msec)]

    def together(self, name, msec, *locks):
        """Likewise, for locks held in other modes: "a=s" (see child.c)."""
        return [self.child, "together", self.path, name, str(msec), *locks]

    def lines(self):
        """The whole ones: a section that is killed while it writes leaves half a line."""
        if not os.path.exists(self.path):
            return []
        with open(self.path, encoding="ascii") as file:
            return [line.split()[:-1] for line in file if line.endswith(" .\n")]

    def begun(self):
        return [line[1] for line in self.lines() if line[0] == "begin"]

    def ended(self):
        return [line[1] for line in self.lines() if line[0] == "end"]

    def all(self):
        found = []
        for line in self.lines():
            if line[0] == "begin":
                fence = int(line[3]) if line[3].isdigit() else 0
                found.append(Section(line[1], int(line[2]), 0, fence))
            elif line[0] == "end":
                position = max(i for i, s in enumerate(found) if s.id == line[1] and s.end == 0)
                found[position] = found[position]._replace(end=int(line[2]))
        return sorted(found, key=lambda section: section.begin)

    def check_overlaps(self):
        overlaps = [line for line in self.lines() if line[0] == "OVERLAP"]
        assert not overlaps, f"{len(overlaps)} overlaps, the first: {overlaps[0]}"

    def check(self):
        """No two sections at once; each fence higher than the one before. Returns the sections."""
        self.check_overlaps()
        found = self.all()
        for before, after in zip(found, found[1:]):
            assert before.end <= after.begin, f"{before} and {after} ran at once"
            assert before.fence < after.fence, f"the fence did not grow: {before} {after}"
        return found
