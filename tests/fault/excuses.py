# SPDX-License-Identifier: MIT
"""What a fault excuses: this, and nothing else. Each excuse of an overlap is a function of the older hold `a`, the younger
one `b` and the faults. What DESIGN.md, section 1, says of it is quoted."""
from plan import HOSTS

MSEC = 1_000_000
# How long a guard that is thawed may take until its command is dead, and how long a stopped group takes to die.
PROMPT = 1000 * MSEC
# Who was started that much later was not queued first.
QUEUED = 300 * MSEC
# The server forgets what it had acknowledged when it died: it comes back empty, or a replica that did not have all of it
# takes over.
DIES = {"wipe", "kill_master"}
# The same, and the old master serves those who still ask it until it learns of that.
LOSES_DATA = DIES | {"freeze_master", "switch_master"}
# Everybody's dealings with the store are disturbed.
STORE_FAULTS = LOSES_DATA | {"relieve_master", "restart", "freeze_server", "freeze_majority", "full_disk"}
# Those of the contenders of one host.
NETWORK_FAULTS = {"fade", "cut", "blackhole", "delay"}
# A klock or a guard is not there to do its part: TARGET is the hold.
PROCESS_FAULTS = {"kill_klock", "freeze_klock", "freeze_waiter", "kill_waiter", "kill_guard", "freeze_guard", "kill_command",
                  "freeze_command", "term_klock", "freeze_host", "kill_host", "force"}


def host_of(who):
    return f"host{int(who[1:].split('.')[0]) % HOSTS}"


def disturbs_store(fault, who):
    return fault.kind in STORE_FAULTS or (fault.kind in NETWORK_FAULTS and fault.target == host_of(who))


def stalls(journal, begin, end):
    """Those between the two, cut to that, without overlaps: (begin, end)."""
    cut, last = [], begin
    for stall in sorted(journal.stalls, key=lambda stall: stall.end - stall.length):
        first = max(stall.end - stall.length, last)
        last = max(last, min(stall.end, end))
        if first < last:
            cut.append((first, last))
    return cut


def stalled(journal, begin, end):
    """How long (ns) between the two a processor did not run what was ready."""
    return sum(last - first for first, last in stalls(journal, begin, end))


def is_starved(journal, begin, end, length):
    """Whether that happened for so long at a time."""
    return any(last - first >= length for first, last in stalls(journal, begin, end))


def lost_data(journal, a, b):
    """Law 1: "... as long as the store keeps what it acknowledged ... Where that fails (failover, eviction, wiped server),
    the fence number lets the protected resource refuse the older one." Law 2 bounds it: the command never outlives the
    lease that was lost. Whose lease it was tells its fence, made of the server's time: its command may begin second, as a
    host may be slow (stores.Direct)."""
    older, younger = sorted((a, b), key=lambda hold: hold.fence)
    for fault in journal.faults.values():
        until = fault.struck if fault.kind in DIES else fault.end
        if (fault.kind in LOSES_DATA and younger.begin >= fault.begin and journal.acquired(older) <= until and
                older.last <= until + older.ttl):
            return True
    return False


def whole_host_frozen(journal, a, b):
    """Law 2: "This holds even when klock itself is SIGKILLed, SIGSTOPped, ..." - but not the guard together with it. When
    all go on, the guard ends the command at once; the fence is the protection meanwhile."""
    return any(fault.kind == "freeze_host" and fault.target == a.who and b.begin >= fault.begin and
               a.last <= fault.end + PROMPT + stalled(journal, fault.end, a.last) for fault in journal.faults.values())


def guard_frozen(journal, a, b):
    """Section 6: "If the guard dies, main stops the group." Main thaws a frozen one when the lease ends without a renewal,
    and not before: so the command may live a moment longer."""
    frozen = [fault for fault in journal.faults.values() if fault.kind == "freeze_guard" and fault.target == a.who]
    doubt = [fault for fault in journal.faults.values()
             if disturbs_store(fault, a.who) and fault.meets(b.begin - 2 * a.ttl, b.begin)]
    return bool(frozen and doubt and frozen[0].meets(a.begin, b.begin) and
                a.last <= b.begin + 50 * MSEC + stalled(journal, b.begin - a.ttl, a.last))


def starved(journal, a, b):
    """Law 2 needs a processor for the guard within its margin before the deadline (20-100 ms). The overlap is no longer
    than the machine was seen not to run what was ready."""
    begin = b.begin - 300 * MSEC
    return is_starved(journal, begin, a.last, 40 * MSEC) and a.last - b.begin <= stalled(journal, begin, a.last)


OVERLAP = {"lost data": lost_data, "whole host frozen": whole_host_frozen, "guard frozen": guard_frozen, "starved": starved}


def overlap(journal, a, b):
    """The name of the excuse, or None."""
    return next((name for name, excuses in OVERLAP.items() if excuses(journal, a, b)), None)


def fence(journal, a, b):
    """Whether the fence of `b` need not be above that of `a`. They may have been acquired in the other order where they ran
    at once. Of two that did not, the one whose fence is the older may have had it before a loss, and begun after the other
    as the reply was slow."""
    return (a.last > b.begin and overlap(journal, a, b) is not None) or lost_data(journal, a, b)


def overtaking(journal, a, b):
    """Whether `b` may come before `a`, who was there first. Section 6: a frozen waiter is passed over when its grant ends,
    one without a connection at once (it may be reconnecting); the queue is the server's."""
    if is_starved(journal, a.start, a.begin, 100 * MSEC):
        return True
    # A klock that hardly runs is not queued soon.
    if b.start - a.start < QUEUED + 5 * stalled(journal, a.start, b.start):
        return True
    return any((fault.target in (a.who, b.who) and fault.kind in PROCESS_FAULTS) or
               (fault.meets(a.start, a.begin) and (disturbs_store(fault, a.who) or disturbs_store(fault, b.who)))
               for fault in journal.faults.values())
