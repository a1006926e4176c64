"""Saves that the functions of tests/kill.py interrupt or kill at system calls, at lines of code and at random times."""

import itertools
import random
import signal

import kill
import pytest
from budget import IS_LONG
from test_save_faults import needs_linux

pytestmark = needs_linux


@pytest.fixture(autouse=True)
def default_interrupt_handler():
    """Handle Ctrl-C as on a terminal: a shell makes background jobs ignore Ctrl-C."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize("layout", kill.LAYOUTS)
@pytest.mark.parametrize("interrupt", [kill.interrupt_at, kill.kill_at])
def test_an_interrupt_or_kill_leaves_an_old_or_new_model_or_a_detected_mix(tmp_path, layout, interrupt):
    scenario = kill.Scenario(tmp_path, layout, size=3000)
    states = []
    stride = 29 if IS_LONG else 67  # try every stride-th event (see kill.call_at_event)
    for event in itertools.count(random.Random(layout).randrange(stride), stride):
        state = interrupt(scenario, event)
        if state is None:
            break
        states.append(state)
    assert len(states) > 300 / stride  # a save has more than 300 events
    possible_states = {"old", "new", "detected"} if scenario.replaces_data_files else {"old", "new"}
    assert {"old", "new"} <= {*states} <= possible_states


@pytest.mark.parametrize("layout", kill.LAYOUTS)
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_at_a_random_time_leaves_an_old_or_new_model_or_a_detected_mix(tmp_path, layout, signal_number):
    scenario, rng = kill.Scenario(tmp_path, layout), random.Random(layout)
    for _ in range(4):
        state = kill.send_signal_at_random_time(scenario, signal_number, rng, max_seconds=0.03)
        assert state in ("old", "new", "detected")
