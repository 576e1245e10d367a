#!/usr/bin/env python3
"""`vwire demo`: traffic both ways, and nothing left behind, however it ends.  Prints TAP.

usage: test_demo.py BUILD/vwire [PATTERN]
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from common import VWIRE, Skip, expect, main, test

SLOW = 60  # seconds that a demo of a second may take under a sanitizer on a busy machine
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]


def works(*words):
    return subprocess.run(words, capture_output=True).returncode == 0


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as f:
            return f.read().replace("\0", " ")
    except OSError:
        return ""


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


class Demo:
    """A demo that runs, and what it must not leave behind."""

    def __init__(self, *options, prefix=()):
        self.process = subprocess.Popen([*prefix, VWIRE, "demo", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        self.pids, self.namespaces = set(), set()

    def look(self):
        for pid in children(self.process.pid):
            self.pids.add(pid)
            if namespace(pid) not in (None, namespace(os.getpid())):
                self.namespaces.add(namespace(pid))

    def wait_for_traffic(self):
        deadline = time.monotonic() + SLOW
        while not any("iperf3 -c" in command(p) for p in children(self.process.pid)):
            expect(self.process.poll() is None, "ended early:", self.process.stderr.read() if self.process.poll() is not None else "")
            expect(time.monotonic() < deadline, "no traffic began")
            self.look()
            time.sleep(0.01)
        self.look()
        expect(len(self.pids) >= 4 and len(self.namespaces) >= 2, self.pids, self.namespaces)

    def child(self, word):
        return next(p for p in children(self.process.pid) if command(p).startswith(f"/proc/self/exe {word} "))

    def finish(self):
        out, err = self.process.communicate(timeout=SLOW)
        return self.process.returncode, out, err

    def expect_nothing_left(self):
        deadline = time.monotonic() + 2
        while any(alive(p) for p in self.pids):
            expect(time.monotonic() < deadline, "processes are left:", [command(p) for p in self.pids if alive(p)])
            time.sleep(0.01)
        while left := {namespace(p) for p in os.listdir("/proc") if p.isdigit()} & self.namespaces:
            expect(time.monotonic() < deadline, "namespaces are left:", left)
            time.sleep(0.01)
        left = [name for name in os.listdir("/tmp") if re.fullmatch(r"(vhost-user|device|driver|iperf3|sockperf).*", name)]
        expect(not left, left, "are left in /tmp")
        expect(not os.path.exists("/sys/class/net/vwire0"), "a TAP is left")


def check_results(text):
    results = json.loads(text)
    for name in "tx_gbps", "rx_gbps", "rtt_p50_us", "rtt_p99_us":
        expect(results[name] > 0, name, results)
    expect(results["rtt_p50_us"] <= results["rtt_p99_us"], results)
    for phase in "tx", "rx", "rtt":
        expect(results[phase]["packets"] > 100, phase, results)
        expect(0 < results[phase]["interrupts_per_packet"] < 2, phase, results)
    expect(results["tx"]["bytes_per_packet"] > 1000 and results["rx"]["bytes_per_packet"] > 1000, results)


@test
def traffic_passes_both_ways():
    demo = Demo("--seconds=1", "--json")
    demo.wait_for_traffic()
    status, out, err = demo.finish()
    expect(status == 0, status, err)
    check_results(out)
    expect("driver to device" in err, "no progress:", err)
    demo.expect_nothing_left()


@test
def the_table_is_for_people():
    demo = Demo("--seconds=1")
    demo.wait_for_traffic()
    status, out, err = demo.finish()
    expect(status == 0, status, err)
    for row in ("throughput, Gbit/s", "p50, us", "p99, us", "packets", "kicks per packet", "interrupts per packet",
                "CPU of the device, %", "CPU of the driver, %"):
        expect(re.search(rf"^{re.escape(row)} +[0-9]", out, re.M), row, "is not in", out)
    expect(all(len(line) <= 80 for line in out.splitlines()), out)
    demo.expect_nothing_left()


@test
def sigint_half_way_leaves_nothing():
    for sig in signal.SIGINT, signal.SIGTERM:
        demo = Demo("--seconds=30")
        demo.wait_for_traffic()
        begin = time.monotonic()
        demo.process.send_signal(sig)
        status, out, err = demo.finish()
        expect(time.monotonic() - begin < 2, "took", time.monotonic() - begin, "s")
        expect((status, out) == (1, ""), status, out)
        expect(err.endswith("vwire demo: interrupted\n"), err)
        demo.expect_nothing_left()


@test
def sigint_at_any_moment_leaves_nothing():
    for delay in 0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32:
        demo = Demo("--seconds=30")
        deadline = time.monotonic() + delay
        while time.monotonic() < deadline:
            demo.look()
        demo.process.send_signal(signal.SIGINT)
        demo.look()
        demo.finish()
        demo.expect_nothing_left()


@test
def sigkill_of_the_demo_leaves_nothing():
    demo = Demo("--seconds=30")
    demo.wait_for_traffic()
    demo.process.kill()
    demo.finish()
    demo.expect_nothing_left()


@test
def sigkill_of_either_end_is_noticed_and_leaves_nothing():
    for word in "device", "driver":
        demo = Demo("--seconds=30")
        demo.wait_for_traffic()
        os.kill(demo.child(word), signal.SIGKILL)
        status, _, err = demo.finish()
        expect(status == 1 and f"vwire demo: the {word} ended too early\n" in err, status, err)
        demo.expect_nothing_left()


@test
def without_root_a_user_namespace_will_do():
    if os.geteuid() == 0 and not works(*NOBODY, "unshare", "--user", "--map-root-user", "--net", "true"):
        raise Skip("user namespaces are not allowed here")
    if not works(*NOBODY, VWIRE, "--version"):
        raise Skip("the build is not readable for others")
    demo = Demo("--seconds=1", "--json", prefix=NOBODY if os.geteuid() == 0 else ())
    demo.wait_for_traffic()
    status, out, err = demo.finish()
    expect(status == 0, status, err)
    check_results(out)
    demo.expect_nothing_left()


def fails_at_first(directory, tool, client, words, times):
    """A stand-in for a tool of the demo, whose client ends without a result so many times.  Not in /tmp: the demo has its own."""
    path = os.path.join(directory, tool)
    with open(path, "w") as f:
        f.write(f"#!/bin/sh\n"
                f'n=$(cat {path}.n 2>/dev/null || echo 0)\n'
                f'if [ "$1" = {client} ] && [ $n -lt {times} ]; then echo $((n + 1)) >{path}.n; echo \'{words}\'; exit 1; fi\n'
                f'exec {shutil.which(tool)} "$@"\n')
    os.chmod(path, 0o755)


@test
def a_tool_without_a_result_is_asked_again():
    with tempfile.TemporaryDirectory(prefix="vw-test-", dir="/var/tmp") as directory:
        fails_at_first(directory, "sockperf", "pp", "sockperf: Test end before test start", 2)
        fails_at_first(directory, "iperf3", "-c", '{"error": "error - the server is busy"}', 1)
        demo = Demo("--seconds=1", "--json", prefix=("env", f"PATH={directory}:{os.environ['PATH']}"))
        status, out, err = demo.finish()
        expect(status == 0, status, err)
        check_results(out)
        for words, times in ("sockperf: no summary", 2), ("iperf3: error - the server is busy", 1):
            expect(err.count("no result: " + words) == times, err)
        demo.expect_nothing_left()


@test
def a_tool_that_never_has_a_result_is_a_failure():
    with tempfile.TemporaryDirectory(prefix="vw-test-", dir="/var/tmp") as directory:
        fails_at_first(directory, "iperf3", "-c", "", 99)
        demo = Demo("--seconds=1", "--json", prefix=("env", f"PATH={directory}:{os.environ['PATH']}"))
        status, out, err = demo.finish()
        expect((status, out) == (1, ""), status, out)
        expect(err.endswith("vwire demo: iperf3: no report\n"), err)
        demo.expect_nothing_left()


@test
def missing_tools_are_named_with_their_package():
    r = subprocess.run([VWIRE, "demo"], capture_output=True, text=True, env={"PATH": "/nowhere"})
    expect((r.returncode, r.stderr) == (1, "vwire demo: iperf3 is not installed: apt-get install iperf3\n"), r)


def check_means():
    for tool in "iperf3", "sockperf", "setpriv", "unshare":
        if not shutil.which(tool):
            return f"{tool} is not installed"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    if os.geteuid() != 0 and not works("unshare", "--user", "--net", "true"):
        return "no network namespace may be made here"
    return None


if __name__ == "__main__":
    if check_means():
        print("1..0 # SKIP", check_means())
        sys.exit(77)
    main(*sys.argv[2:])
