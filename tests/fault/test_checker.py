# SPDX-License-Identifier: MIT
"""The checker finds each law violated once, and lets a good journal pass."""
from checker import check
from journal import Journal

MODES = {"x": "exclusive", "s": "shared", "p": "slots"}


def hold(who, mode, start, begin, last, fence, end=True, status=42, left=None):
    """Times in ms. Its klock ends just after it, or at `left`."""
    job = f"n {MODES[mode]} {fence} 1"
    lines = [f"start {start}000000 {who} n {MODES[mode]} 1000 333", f"begin {begin}000000 {who} {job}",
             f"{'end' if end else 'alive'} {last}000000 {who} {job}"]
    return lines + ([f"exit {left or last + 1}000000 {who} {status}"] if status is not None else [])


def fault(number, kind, target, begin, end=None, struck=None):
    return ([f"fault {begin}000000 {number} {kind} {target}"] + ([f"over {end}000000 {number}"] if end else []) +
            ([f"struck {struck}000000 {number}"] if struck else []))


def found(*parts):
    journal = Journal()
    for part in parts:
        journal.feed(part)
    return [violation.law for violation in check(journal).violations]


def test_a_good_journal_passes():
    assert found(hold("c0.0", "x", 0, 10, 20, 5), hold("c1.0", "s", 5, 30, 60, 6), hold("c2.0", "s", 6, 31, 50, 7),
                 hold("c3.0", "p", 7, 32, 50, 8), hold("c4.0", "p", 8, 33, 50, 9), hold("c5.0", "x", 9, 70, 80, 10)) == []


def test_two_at_once():
    assert found(hold("c0.0", "x", 0, 10, 30, 5), hold("c1.0", "x", 0, 20, 40, 6)) == ["exclusion"]
    assert found(hold("c0.0", "s", 0, 10, 30, 5), hold("c1.0", "x", 0, 20, 40, 6)) == ["exclusion"]
    assert found(hold("c0.0", "x", 0, 10, 30, 5), hold("c1.0", "p", 0, 20, 40, 6)) == ["exclusion"]


def test_one_that_was_killed_lived_until_its_last_sign_of_life():
    first = hold("c0.0", "x", 0, 10, 30, 5, end=False, status=137)
    assert found(first, hold("c1.0", "x", 0, 29, 40, 6)) == ["exclusion"]
    assert found(first, hold("c1.0", "x", 0, 31, 40, 6)) == []


def test_one_slot_too_many():
    three = [hold(f"c{i}.0", "p", 0, 10 + i, 30, 5 + i) for i in range(3)]
    assert found(*three) == ["exclusion"] and found(*three[:2]) == []


def test_the_fence():
    assert found(hold("c0.0", "x", 0, 10, 20, 6), hold("c1.0", "x", 0, 30, 40, 5)) == ["fence"]
    assert found(hold("c0.0", "x", 0, 10, 20, 6), hold("c1.0", "x", 0, 30, 40, 6)) == ["fence"]
    assert found(hold("c0.0", "s", 0, 10, 20, 6), hold("c1.0", "x", 0, 30, 40, 5)) == ["fence"]
    assert found(hold("c0.0", "s", 0, 10, 20, 6), hold("c1.0", "s", 0, 30, 40, 5)) == [], "granted together"


def test_a_loss_excuses_the_fence_of_who_began_late():
    holds = hold("c0.0", "x", 0, 20, 25, 6), hold("c1.0", "x", 0, 30, 40, 5)
    assert found(*holds, fault(1, "wipe", "server", 12, 14)) == [], "c1.0 acquired before it"
    assert found(*holds, fault(1, "wipe", "server", 26, 27)) == ["fence"], "c0.0 had the lock before it"


def test_a_clock_that_stepped_excuses_no_fence():
    step = fault(1, "step_clock", "host0", 25)
    holds = hold("c0.0", "x", 0, 10, 20, 6), hold("c1.0", "x", 0, 30, 40, 5)
    assert found(*holds, step) == ["fence"]


def test_the_order_of_service():
    late = hold("c0.0", "x", 0, 700, 720, 9)
    assert found(hold("c1.0", "x", 400, 600, 650, 5), late) == ["order"]
    assert found(hold("c1.0", "x", 100, 600, 650, 5), late) == [], "who knows who was first"
    assert found(hold("c1.0", "x", 400, 600, 650, 5), late, fault(1, "freeze_waiter", "c0.0", 10, 400)) == []
    assert found(hold("c1.0", "x", 400, 600, 650, 5), late, fault(1, "freeze_waiter", "c7.0", 10, 400)) == ["order"]
    assert found(hold("c1.0", "x", 400, 600, 650, 5), late, fault(1, "cut", "host0", 10, 11)) == []
    assert found(hold("c1.0", "x", 400, 600, 650, 5), late, fault(1, "cut", "host2", 10, 11)) == ["order"]


def test_lost_data_excuses_no_more_than_the_lease():
    wipe = fault(1, "wipe", "server", 20, 28, 25)
    younger = hold("c1.0", "x", 0, 30, 2000, 6)
    assert found(hold("c0.0", "x", 0, 10, 900, 5), younger, wipe) == []
    assert found(hold("c0.0", "x", 0, 10, 1100, 5), younger, wipe) == ["exclusion"]
    late = hold("c0.0", "x", 0, 700, 900, 690_000), hold("c1.0", "x", 0, 800, 2000, 790_000)
    assert found(*late, wipe) == ["exclusion"], "it came after"
    slow = hold("c0.0", "x", 0, 700, 900, 10_000), hold("c1.0", "x", 0, 600, 800, 590_000)
    assert found(*slow, wipe) == [], "acquired before, and begun late"
    frozen = fault(1, "freeze_master", "server", 20, 200, 21)
    assert found(hold("c0.0", "x", 0, 26, 1150, 5), younger, frozen) == [], "the old one goes on"
    assert found(hold("c0.0", "x", 0, 10, 900, 5), younger, fault(1, "restart", "server", 20, 25)) == ["exclusion"]
    assert found(hold("c0.0", "x", 0, 10, 900, 6), hold("c1.0", "x", 0, 950, 990, 5), wipe) == ["fence"]


def test_a_frozen_host_excuses_until_it_is_thawed():
    frozen = fault(1, "freeze_host", "c0.0", 20, 3000)
    younger = hold("c1.0", "x", 0, 2000, 2900, 6)
    assert found(hold("c0.0", "x", 0, 10, 3100, 5), younger, frozen) == []
    assert found(hold("c0.0", "x", 0, 10, 4100, 5), younger, frozen) == ["exclusion"]
    assert found(hold("c0.0", "x", 0, 10, 3100, 5), younger, fault(1, "freeze_klock", "c0.0", 20, 3000)) == ["exclusion"]


def test_a_stall_excuses_what_it_is_long():
    younger = hold("c1.0", "x", 0, 1000, 1200, 6)
    assert found(hold("c0.0", "x", 0, 10, 1050, 5), younger, ["stall 1060000000 60000000"]) == []
    assert found(hold("c0.0", "x", 0, 10, 1080, 5), younger, ["stall 1060000000 60000000"]) == ["exclusion"]


def test_orphans():
    assert found(hold("c0.0", "x", 0, 10, 30, 5, left=25)) == ["orphan"]
    killed = hold("c0.0", "x", 0, 10, 5000, 5, end=False, status=137, left=25)
    assert found(killed, fault(1, "kill_klock", "c0.0", 25, 26)) == ["orphan"]
    assert found(killed, fault(1, "kill_klock", "c0.0", 4000, 4001)) == []


def test_the_status_of_a_command_that_did_not_end():
    assert found(hold("c0.0", "x", 0, 10, 30, 5, end=False)) == ["truth"]
    assert found(hold("c0.0", "x", 0, 10, 30, 5, end=False, status=79)) == []
