# SPDX-License-Identifier: MIT
"""The laws, checked on a journal: a pure function of what the commands and the run wrote down. klock is not asked."""
import bisect
from collections import Counter
from typing import NamedTuple

import excuses
from excuses import MSEC, PROMPT, QUEUED, stalled
from plan import SLOT_COUNT

COMMAND_STATUS = 42  # of job.c


class Violation(NamedTuple):
    law: str
    ns: int
    text: str
    whos: tuple


class Verdict(NamedTuple):
    violations: list
    excused: Counter  # by the reason


def check(journal, in_order=True):
    """`in_order`: whether waiters are served in the order of their arrival."""
    verdict = Verdict([], Counter())
    ran = sorted((hold for hold in journal.holds.values() if hold.begin is not None), key=lambda hold: hold.begin)
    for name in sorted({hold.name for hold in ran}):
        holds = [hold for hold in ran if hold.name == name]
        check_exclusion(journal, holds, verdict)
        check_fences(journal, holds, verdict)
        if in_order:
            check_order(journal, holds, verdict)
    for hold in ran:
        check_end(journal, hold, verdict)
    verdict.violations.sort(key=lambda violation: violation.ns)
    return verdict


def compatible(a, b):
    return "exclusive" not in (a.mode, b.mode)


def check_exclusion(journal, holds, verdict):
    """Who shows life after another one's begin ran beside it."""
    def stands(a, b):
        reason = excuses.overlap(journal, a, b)
        if reason:
            verdict.excused[reason] += 1
        return not reason

    living = []
    for b in holds:
        living = [a for a in living if a.last > b.begin]
        beside = [a for a in living if not compatible(a, b) and stands(a, b)]
        slots = [a for a in living if a.mode == "slots"]
        if b.mode == "slots" and len(slots) >= SLOT_COUNT:
            slots = [a for a in slots if stands(a, b)]
            beside += slots[SLOT_COUNT - 1:]
        for a in beside[:1]:
            verdict.violations.append(Violation("exclusion", b.begin, f"{b} began, and {a} lived "
                                                f"{(a.last - b.begin) / MSEC:.2f} ms longer", (a.who, b.who)))
        living.append(b)


def check_fences(journal, holds, verdict):
    """They grow from each hold to the next that excludes it, and no two have the same."""
    highest, highest_exclusive, seen = None, None, {}

    def report(a, b, text):
        verdict.violations.append(Violation("fence", b.begin, f"{b} {text} {a}", (a.who, b.who)))

    for b in holds:
        if b.fence in seen:
            report(seen[b.fence], b, "has the fence of")
        seen[b.fence] = b
        a = highest if b.mode == "exclusive" else highest_exclusive
        if a and a.fence > b.fence and not excuses.fence(journal, a, b):
            report(a, b, "came after")
        if not highest or b.fence > highest.fence:
            highest = b
        if b.mode == "exclusive" and (not highest_exclusive or b.fence > highest_exclusive.fence):
            highest_exclusive = b


def check_order(journal, holds, verdict):
    """Who waited before the other one was started is served before it, where they exclude each other."""
    begins = [hold.begin for hold in holds]
    for a in holds:
        first = bisect.bisect_left(begins, a.start + QUEUED)
        for b in holds[first:bisect.bisect_left(begins, a.begin)]:
            if b.start < a.start + QUEUED or compatible(a, b):
                continue
            if excuses.overtaking(journal, a, b):
                verdict.excused["overtaken"] += 1
                continue
            verdict.violations.append(Violation("order", b.begin, f"{b} overtook {a}, who had waited "
                                                f"{(b.start - a.start) / MSEC:.0f} ms before it came", (a.who, b.who)))


def check_end(journal, hold, verdict):
    """Law 3: nobody outlives klock, or its guard when klock is killed. Law 6: a status that is the command's."""
    def report(law, text):
        verdict.violations.append(Violation(law, hold.last, f"{hold} {text}", (hold.who,)))

    killed = [fault for fault in journal.faults.values()
              if fault.target == hold.who and fault.kind in ("kill_klock", "kill_waiter", "kill_host")]
    if not killed and hold.last > hold.exit:
        report("orphan", f"lived {(hold.last - hold.exit) / MSEC:.2f} ms longer than its klock")
    for fault in killed:
        # A guard that is frozen meanwhile goes on when it is thawed.
        thawed = max((other.end for other in journal.faults.values() if other.target == hold.who and "freeze" in other.kind),
                     default=0)
        begin = max(fault.begin, thawed)
        end = begin + hold.kill_after + PROMPT
        if hold.last > end + stalled(journal, begin, end):
            report("orphan", f"lived {(hold.last - begin) / MSEC:.2f} ms longer than its klock, which was killed")
    if hold.status == COMMAND_STATUS and hold.end is None:
        report("truth", "did not come to its end, and klock ended with its status")
