"""Saves that are interrupted and killed at system calls, at lines and at random times; tests/kill.py does more."""

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
    """Handle Ctrl-C as on a terminal: a shell makes background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("layout", kill.LAYOUTS)
@pytest.mark.parametrize("strike", [kill.interrupt_at, kill.kill_at])
def test_an_interrupt_at_any_event_leaves_the_old_or_the_new_model_complete(tmp_path, layout, strike):
    scenario = kill.Scenario(tmp_path, layout, 3000)
    found = []
    stride = 29 if IS_LONG else 67
    for event in itertools.count(random.Random(layout).randrange(stride), stride):
        left = strike(scenario, event)
        if left is None:
            break
        found.append(left)
    assert len(found) > 300 / stride
    assert {"old", "new"} <= {*found} <= ({"old", "detected", "new"} if scenario.is_replaced else {"old", "new"})


@pytest.mark.parametrize("layout", kill.LAYOUTS)
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_at_some_time_leaves_the_old_model_or_the_new_one(tmp_path, layout, sign):
    scenario, chance = kill.Scenario(tmp_path, layout), random.Random(layout)
    for _ in range(4):
        assert kill.send_signal_at_random_time(scenario, sign, chance, 0.03) in ("old", "new", "detected")
