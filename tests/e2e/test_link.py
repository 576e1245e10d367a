#!/usr/bin/env python3
"""A device and a driver as two processes, full speed between them: signals, kills, hung peers, settings under load.

usage: test_link.py BUILD/vwire SOURCE_DIR [PATTERN]
"""
import mmap
import os
import pathlib
import re
import signal
import socket
import struct
import sys
import time

from common import SLOW, Device, End, expect, expect_eq, link, main, packets, run, test, wait_for

FULL = os.environ.get("VW_TEST_FULL") == "1"


def wait_for_traffic(*ends):
    before = [packets(e) for e in ends]
    for end, old in zip(ends, before):
        wait_for(lambda: all(packets(end)[k] > old[k] for k in ("rx", "tx")), f"traffic at the {end.name}")


def settled_fds(end):
    """Without the connection of the last `ctl`, which it may not have closed yet."""
    time.sleep(0.05)
    return end.fds()


def memory_maps(end):
    with open(f"/proc/{end.process.pid}/maps") as f:
        return sum(1 for _ in f)


@test
def traffic_flows_both_ways_and_both_ends_agree():
    # a generator that stops, at either end; then every packet is somewhere
    with link(("--port=gen:count=20000",), ("--port=gen:count=30000",)) as (device, driver):
        for kind, n in ("rx", 20000), ("tx", 30000):
            for end in device, driver:
                wait_for(lambda: packets(end)[kind] == n, f"{n} {kind} packets at the {end.name}, not {packets(end)}")
        stats = device.stats(), driver.stats()
        for q, r in zip(stats[0]["queues"], stats[1]["queues"]):
            expect_eq((q["index"], q["kind"], q["ring"], q["size"]), (r["index"], r["kind"], r["ring"], r["size"]))
            expect_eq(q["counters"]["bytes"], r["counters"]["bytes"])
            expect_eq(sum(q["drops"].values()) + sum(r["drops"].values()), 0)
        expect_eq(stats[0]["features"], stats[1]["features"])
        expect_eq(stats[0]["protocol_features"], stats[1]["protocol_features"])


@test
def every_counter_and_reason_stands_in_the_manual():
    manual = (pathlib.Path(sys.argv[2]) / "docs/vwire-ctl.1").read_text()
    words = set(re.split(r"[\s,]+", manual))
    with link() as ends:
        for end in ends:
            for q in end.stats()["queues"]:
                missing = [name for name in (*q["counters"], *q["drops"]) if name not in words]
                expect(not missing, f"{end.name}'s", q["kind"], "queue has", missing)


# hostile K15
@test
def sigterm_under_load_ends_either_end_in_a_second():
    for which in 0, 1:
        with link() as ends:
            wait_for_traffic(*ends)
            status, seconds = ends[which].end()
            expect_eq((ends[which].name, status), (ends[which].name, 0))
            expect(seconds < 1, ends[which].name, "took", seconds)
            expect_eq(ends[1 - which].process.poll(), None)


# hostile K17
@test
def a_stopped_peer_does_not_delay_the_end():
    for which in 0, 1:
        with link() as ends:
            wait_for_traffic(*ends)
            ends[1 - which].process.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            status, seconds = ends[which].end()
            expect_eq((ends[which].name, status), (ends[which].name, 0))
            expect(seconds < 1, ends[which].name, "took", seconds)
            expect(not os.path.exists(ends[which].ctl), "a socket was left behind")


# hostile K01
@test
def a_killed_driver_costs_the_device_nothing():
    with link() as (device, driver):
        wait_for_traffic(device, driver)
        before = None
        for i in range(1000 if FULL else 20):
            driver.process.kill()
            driver.process.wait()
            wait_for(lambda: device.stats()["state"] == "listening", "the device to notice")
            if i == 0:
                before = settled_fds(device), memory_maps(device)
            wait_for(lambda: device.fds() <= before[0], f"{before[0]} fds at the device")
            expect(memory_maps(device) <= before[1] + 2, memory_maps(device), "mappings, not", before[1])
            driver.start()
            wait_for(lambda: device.stats()["state"] == "running", "the next driver")
        wait_for_traffic(device, driver)


@test
def a_killed_device_is_reconnected_to():
    with link() as (device, driver):
        wait_for_traffic(device, driver)
        before = None
        for i in range(1000 if FULL else 20):
            device.process.kill()
            device.process.wait()
            wait_for(lambda: driver.stats()["state"] != "running", "the driver to notice")
            if i == 0:
                before = settled_fds(driver)
            wait_for(lambda: driver.fds() <= before, f"{before} fds at the driver")
            device.start()
            device.said("a front end connected")
        wait_for_traffic(device, driver)


@test
def roles_of_the_socket_may_be_swapped():
    with Device("--client", "--port=gen") as device:
        with End("driver", device.dir.name, f"--socket-path={device.path}", "--port=gen", "--server") as driver:
            expect(f"info driver: listening path={device.path}\n" in driver.lines(), driver.lines())
            wait_for_traffic(device, driver)
            for end in device, driver:
                expect_eq(end.end()[0], 0)
            expect(not os.path.exists(device.path), "the driver's socket was left behind")


@test
def settings_change_under_load_without_losing_a_packet():
    with link(("--port=gen:count=1000000",), ("--port=gen:count=1000000",)) as (device, driver):
        changes = [(device, ["tx-usecs=20", "tx-frames=16"]), (device, ["rx-usecs=20", "rx-frames=16"]), (device, ["poll-us=20"]),
                   (device, ["adaptive=both"]), (device, ["adaptive=off", "poll-us=0"]), (driver, ["tx-mode=orphan"]),
                   (driver, ["kick=each", "bql=off"]), (driver, ["tx-mode=napi", "kick=burst", "bql=on"]), (driver, ["poll-us=20"]),
                   (driver, ["rx-buffers=page"]), (driver, ["rx-buffers=auto", "poll-us=0"]),
                   (device, ["tx-usecs=0", "rx-usecs=0"])]
        for end, settings in changes:
            r = end.ask("set", *settings)
            expect_eq((settings, r.returncode, r.stderr), (settings, 0, ""))
        for end in device, driver:
            wait_for(lambda: packets(end)["rx"] == packets(end)["tx"] == 1000000, f"every packet at the {end.name}")


@test
def the_drivers_link_is_the_operators_too():
    with link() as (device, driver):
        for state in "down", "up":
            expect_eq(device.ask("link", state).returncode, 0)
            expect_eq(driver.ask("link", state).returncode, 0)
        wait_for_traffic(device, driver)


@test
def captures_begin_and_end_under_load():
    with link() as (device, driver):
        for end in device, driver:
            file = f"{device.dir.name}/{end.name}.pcap"
            expect_eq(end.ask("pcap", file).returncode, 0)
            wait_for(lambda: os.stat(file).st_size > 1000, "frames in the capture")
            expect_eq(end.ask("pcap", "off").returncode, 0)
            size = os.stat(file).st_size
            wait_for_traffic(end)
            expect_eq(os.stat(file).st_size, size)


@test
def a_trace_of_the_decisions_replays_and_a_forged_one_does_not():
    with link(("--port=gen:rate=20000", "--queues=2", "--poll-us=20"), ("--port=gen:rate=20000", "--queues=2")) as (device, driver):
        file = f"{device.dir.name}/trace"
        expect_eq(device.ask("trace", file).returncode, 0)
        r = device.ask("trace", file)
        expect(r.returncode == 1 and "wrong-state" in r.stderr, r.stderr)
        for settings in ["adaptive=both"], ["poll-us=50"], ["rx-usecs=20", "rx-frames=16"], ["adaptive=tx", "poll-us=0"], ["poll-us=10"]:
            expect_eq(device.ask("set", *settings).returncode, 0)
            wait_for_traffic(device)
        expect_eq(device.ask("trace", "off").returncode, 0)
        r = device.ask("trace", "off")
        expect(r.returncode == 1 and "there is no recording to end" in r.stderr, r.stderr)
        lines = pathlib.Path(file).read_text().splitlines(keepends=True)
        for step in "polling", "moderation", "set", "begin", "init", "note":
            expect(any(step in line.split() for line in lines), "no", step, "among", len(lines), "lines")
        r = run("ctl", f"--replay={file}")
        expect_eq((r.returncode, r.stdout, r.stderr), (0, f"all decisions are the same calls={len(lines) - 1}\n", ""))
        at = next(i for i, line in enumerate(lines) if " note " in line)
        for line, fault in ((lines[at].replace(" off ", " on "), "decided otherwise"), ("0 polling 5\n", "unreadable"),
                            ("0 moderation 72057594037927936 note 1 1 off 0\n", "unreadable"), ("999 polling 1 hit 0 0\n", "unreadable")):
            pathlib.Path(file).write_text("".join(lines[:at]) + line)
            r = run("ctl", f"--replay={file}")
            expect_eq((r.returncode, r.stderr), (1, f"vwire ctl: line {at + 1}: {fault}: {line}"))
        expect_eq(driver.ask("trace", file).stderr, "vwire ctl: unsupported: this end cannot trace\n")
        r = device.ask("trace", "/dev/null")
        expect(r.returncode == 1 and "a recording goes into a regular file" in r.stderr, r.stderr)


# ---- memory that goes away ----

def message(s, request, payload, fds=(), reply=0):
    data = struct.pack("=III", request, 1, len(payload)) + payload
    socket.send_fds(s, [data], list(fds))
    if reply:
        answer = s.recv(12 + reply)
        expect_eq(len(answer), 12 + reply)
        return answer[12:]
    return b""


# hostile B: a shrunk file breaks the device's queue, not the process
@test
def memory_taken_away_costs_the_queue_and_not_the_process():
    size, rings = 1 << 20, 0x1000
    memory = os.memfd_create("guest")
    os.ftruncate(memory, size)
    view = mmap.mmap(memory, size)
    kick, call = os.eventfd(0), os.eventfd(0)
    with Device() as d:
        s = d.connect()
        s.settimeout(SLOW)
        message(s, 3, b"")  # SET_OWNER
        message(s, 2, struct.pack("=Q", 1 << 32))  # SET_FEATURES: VERSION_1, no protocol features: rings start enabled
        message(s, 5, struct.pack("=IIQQQQ", 1, 0, 0, size, 0, 0), [memory])  # SET_MEM_TABLE
        message(s, 8, struct.pack("=II", 1, 8))  # SET_VRING_NUM of the tx queue
        message(s, 10, struct.pack("=II", 1, 0))  # SET_VRING_BASE
        message(s, 9, struct.pack("=IIQQQQ", 1, 0, rings, rings + 0x200, rings + 0x100, 0))  # ADDR: desc, used, avail
        message(s, 13, struct.pack("=Q", 1), [call])
        message(s, 12, struct.pack("=Q", 1), [kick])
        view[rings:rings + 16] = struct.pack("<QIHH", 0x10000, 12 + 60, 0, 0)
        view[rings + 0x100:rings + 0x106] = struct.pack("<HHH", 0, 1, 0)
        os.eventfd_write(kick, 1)
        wait_for(lambda: packets(d)["tx"] == 1, "a packet before")
        os.ftruncate(memory, 0)
        os.eventfd_write(kick, 1)
        wait_for(lambda: any(q["broken"] == "memory-gone" for q in d.stats()["queues"]), "memory-gone in the statistics")
        expect_eq(d.process.poll(), None)
        s.close()
        wait_for(lambda: d.stats()["state"] == "listening", "the device to listen again")
        expect_eq(d.end()[0], 0)
    for fd in memory, kick, call:
        os.close(fd)


if __name__ == "__main__":
    main(*sys.argv[3:])
