# SPDX-License-Identifier: MIT
"""The plan comes from the seed alone, and each fault in it stands in the table of excuses."""
import itertools

import excuses
import faults
import plan
import pytest
from fault import STORES

KNOWN = excuses.STORE_FAULTS | excuses.NETWORK_FAULTS | excuses.PROCESS_FAULTS


def first(iterator):
    return list(itertools.islice(iterator, 200))


def test_the_same_seed_is_the_same_plan():
    assert first(plan.steps(7, 3)) == first(plan.steps(7, 3))
    assert first(plan.steps(7, 3)) != first(plan.steps(8, 3)) != first(plan.steps(8, 4))
    assert first(plan.faults(7, faults.WEIGHTS, faults.LENGTHS)) == first(plan.faults(7, faults.WEIGHTS, faults.LENGTHS))


def test_a_lease_is_longer_than_what_a_slow_machine_needs():
    assert all(step.ttl_ms >= 1000 for contender in range(plan.CONTENDERS) for step in first(plan.steps(1, contender)))


@pytest.mark.parametrize("store", STORES.values())
def test_each_fault_can_be_brought_about_and_stands_in_the_table(store):
    assert set(faults.WEIGHTS) == excuses.PROCESS_FAULTS and all(f"_{kind}" in dir(faults) for kind in faults.WEIGHTS)
    assert set(store.weights) <= KNOWN and set(store.on_hosts) <= set(store.weights)
    assert all(hasattr(store, f"begin_{kind}") for kind in store.weights if kind != "fade")
