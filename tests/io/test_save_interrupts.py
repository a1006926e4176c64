"""Saves that are interrupted and killed at calls of the system and at lines, and at random; tests/kill.py does more."""

import itertools
import random
import signal

import kill
import pytest
from budget import IS_LONG
from test_save_faults import linux

pytestmark = linux


@pytest.fixture(autouse=True)
def heed_interrupts():
    """As in a terminal: a shell has its background jobs ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("layout", kill.LAYOUTS)
@pytest.mark.parametrize("strike", [kill.interrupted_at, kill.killed_at])
def test_an_interrupt_at_any_event_leaves_the_old_or_the_new_model_complete(tmp_path, layout, strike):
    ground = kill.Ground(tmp_path, layout, 3000)
    found = []
    stride = 29 if IS_LONG else 67
    for event in itertools.count(random.Random(layout).randrange(stride), stride):
        left = strike(ground, event)
        if left is None:
            break
        found.append(left)
    assert len(found) > 300 / stride
    assert {"old", "new"} <= {*found} <= ({"old", "detected", "new"} if ground.is_replaced else {"old", "new"})


@pytest.mark.parametrize("layout", kill.LAYOUTS)
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_at_some_time_leaves_the_old_model_or_the_new_one(tmp_path, layout, sign):
    ground, chance = kill.Ground(tmp_path, layout), random.Random(layout)
    for _ in range(4):
        assert kill.struck(ground, sign, chance, 0.03) in ("old", "new", "detected")
