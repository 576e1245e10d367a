#!/usr/bin/env python3
"""The device's engine with a driver of ours at the other end: interrupts as both ends count them, queues that share a worker, a link at rest.

usage: test_engine.py BUILD/vwire [PATTERN]
"""
import os
import pathlib
import sys
import time

from common import expect, expect_eq, link, main, packets, test, wait_for

FULL = os.environ.get("VW_TEST_FULL") == "1"


def queues(end, kind=None):
    return [q for q in end.stats()["queues"] if kind in (None, q["kind"])]


def wait_for_packets(n, *ends):
    for end in ends:
        wait_for(lambda: packets(end)["rx"] == packets(end)["tx"] == n, f"{n} packets each way at the {end.name}", 60)


def cpu_ns(end):
    return sum(int(t.read_text().split()[0]) for t in pathlib.Path(f"/proc/{end.process.pid}/task").glob("*/schedstat"))


# T-COAL-05
@test
def the_drivers_coalescing_is_the_devices_and_both_ends_count_the_same_interrupts():
    n = 200000
    for options in (), ("--tx-usecs=40", "--tx-frames=16", "--rx-usecs=300", "--rx-frames=9"):
        rate = f"--port=gen:count={n},rate=200000"
        with link((rate,), (rate, *options)) as (device, driver):
            wait_for_packets(n, device, driver)
            wait_for(lambda: [q["counters"]["calls"] for q in queues(device)] ==
                     [q["counters"]["interrupts"] for q in queues(driver)], "the same interrupts at both ends")
            for d in queues(device):
                usecs, frames, held = d["settings"]["usecs"], d["settings"]["frames"], d["counters"].get("calls_coalesced")
                if d["kind"] != "ctrl":
                    expect_eq((usecs, frames), ({"tx": (40, 16), "rx": (300, 9)}[d["kind"]]) if options else (0, 0))
                    expect((held > 0) == bool(options), d["kind"], "held back", held)
            expect(sum(q["counters"]["interrupts"] for q in queues(driver)) > 0, "no interrupt at all")


# T-COAL-11, T-VH-14
@test
def queues_that_share_a_worker_have_their_own_parameters():
    port = "--port=gen:rate=5000"
    want = {1: (0, 50, 8), 3: (0, 90, 20), 4: (0, 30, 5), 5: (20, 0, 0), 6: (30, 0, 0)}
    with link((port, "--queues=4", "--workers=1"), (port, "--queues=4")) as (device, driver):
        expect_eq(device.ask("set", "q1.tx-usecs=50", "q1.tx-frames=8", "q3.tx-usecs=90", "q3.tx-frames=20", "q4.rx-usecs=30",
                             "q4.rx-frames=5", "q5.poll-us=20", "q6.poll-us=30").returncode, 0)

        def did(q):
            return q["counters"]["calls_coalesced"] > 0, q["counters"]["poll_hits"] + q["counters"]["poll_misses"] > 0

        def should(q):
            poll, usecs, _ = want.get(q["index"], (0, 0, 0))
            return usecs > 0, poll > 0

        wait_for(lambda: all(q["counters"]["packets"] > 500 and (did(q) == should(q)) for q in queues(device) if q["kind"] != "ctrl"),
                 "every queue to do as it is set, and as no other is", 30)
        for q in queues(device):
            s = q["settings"]
            expect_eq((q["index"], s["poll_us"], s["usecs"], s["frames"]), (q["index"], *want.get(q["index"], (0, 0, 0))))
        threads = [t.read_text().strip() for t in pathlib.Path(f"/proc/{device.process.pid}/task").glob("*/comm")]
        expect_eq(sum("worker" in t for t in threads), 1)


@test
def a_link_at_rest_costs_no_cpu_whatever_is_set():
    seconds = 10 if FULL else 2
    port = "--port=gen:count=50000"
    with link((port, "--poll-us=50", "--tx-usecs=64", "--tx-frames=64", "--rx-usecs=64", "--rx-frames=64", "--queues=2"),
              (port, "--queues=2")) as (device, driver):
        for settings in (), ("adaptive=both",):
            if settings:
                expect_eq(device.ask("set", *settings).returncode, 0)
            wait_for_packets(100000, device, driver)
            time.sleep(0.2)
            before = cpu_ns(device)
            time.sleep(seconds)
            used = (cpu_ns(device) - before) / 1e9 / seconds
            expect(used < 0.0005, f"{100 * used:.3f} % of a CPU")


if __name__ == "__main__":
    main(*sys.argv[2:])
