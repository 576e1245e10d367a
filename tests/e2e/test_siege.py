#!/usr/bin/env python3
"""Traffic through each fault again and again: an end is killed, cut off, given new memory tables, its TAP set down.  After each the
accounts are audited to the frame, and neighbours on the same CPU lose nothing (tests/siege/).  With VW_TEST_FULL=1 the full counts.

usage: test_siege.py BUILD/vwire [PATTERN]
"""
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "siege"))
import faults  # noqa: E402
from common import VWIRE, Skip, expect, main, test, wait_for  # noqa: E402
from field import Field  # noqa: E402

FULL = os.environ.get("VW_TEST_FULL") == "1"
PIECE = int(os.environ.get("VW_SIEGE_PIECE", 1))  # a full count in that many runs: this runs one of them


BURST = 300  # frames each way just before, so that rings are not empty


def count(everyday, full):
    return full // PIECE if FULL else everyday


def besiege(name, times, seconds_each, ready, every=1):
    """The fault so often, each on a running link under load, with an audit after every few; then nothing may be left."""
    if os.geteuid() != 0:
        raise Skip("needs root for network namespaces")
    seconds = 2 + times * seconds_each
    field = Field(VWIRE, times, seconds)
    with field.stack:
        field.warm_up()
        field.audit()
        for i in range(times):
            field.stream.say(BURST)
            faults.FAULTS[name][1](field)
            wait_for(lambda: ready(field), f"the link after {name} number {i}", 20)
            if i % every == 0:
                field.audit()
        field.audit()
        field.finish(seconds)
        expect(min(taken for taken, _ in field.ledger.totals().values()) > times, "hardly any traffic")
        print(f"# {name}: {times} times, {field.audits} audits, frames {field.ledger.totals()}, "
              f"in flight at the time {field.ledger.uncounted}")


def up(field):
    return field.device.running() and field.driver.running()


# hostile K01
@test
def a_driver_that_is_killed_loses_what_was_in_flight_and_nobody_else_anything():
    besiege("kill-driver", count(8, 1000), 0.2, up)


# hostile K01
@test
def a_device_that_is_killed_loses_what_was_in_flight_and_nobody_else_anything():
    besiege("kill-device", count(8, 1000), 0.2, up)


# hostile K04
@test
def connections_that_break_off_cost_what_was_in_flight():
    def again(field):
        return field.proxy.sessions > again.seen and up(field)

    def cut(field):
        again.seen = field.proxy.sessions
        faults.reconnect(field)

    faults.FAULTS["cut"] = 0, cut
    besiege("cut", count(40, 10000), 0.05, again, 5)


# hostile B14
@test
def memory_tables_that_are_swapped_under_load_cost_nothing():
    besiege("memory-tables", count(200, 10000) // 20, 0.1, up)  # each time twenty


# hostile J01
@test
def a_tap_that_goes_down_and_up_costs_what_is_counted():
    besiege("tap-down", count(10, 500), 0.1, up)


# hostile K17
@test
def an_end_that_stands_still_for_a_minute_goes_on_with_its_accounts_right():
    waiting = ["driver", "device"]

    def stand_still(field):
        before, end = field.proxy.sessions, getattr(field, waiting.pop())
        end.process.send_signal(signal.SIGSTOP)
        time.sleep(60 if FULL else 1)
        end.process.send_signal(signal.SIGCONT)
        wait_for(lambda: up(field), f"the link after the {end.name} stood still", 20)
        if field.proxy.sessions != before:  # the other end has given it up meanwhile
            field.ledger.may_lose(2)

    faults.FAULTS["stand-still"] = 0, stand_still
    besiege("stand-still", len(waiting), 62 if FULL else 2, up)


if __name__ == "__main__":
    main(*sys.argv[2:])
