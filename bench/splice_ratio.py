#!/usr/bin/env python3
"""TCP between two network namespaces, through `vwire device` + `vwire driver` and through tap_splice, side by side.

Both links stand all the time and are measured in turn (A B A B ...).  Needs root, iperf3 and sockperf.  Prints key=value lines.

usage: splice_ratio.py [--build=DIR] [--seconds=N] [--repeat=N] [--nice=N] [--cpu=N] [--device=OPTS] [--driver=OPTS] [METRIC...]
--cpu pins all that stands between the TAPs of either link to one CPU, as `vwire demo` does where CPUs are few.
METRIC: stream, stream-back, small, small-back, rtt (default: all).  "back" is from the device's side to the driver's.
"""
import argparse
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

from ratio import report

TOP = pathlib.Path(__file__).resolve().parent.parent
NEAR, FAR = "10.77.0.1", "10.77.0.2"  # the driver's side and the device's; the namespaces keep both links apart


def run(*words, **kw):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True, **kw).stdout


class Link:
    """Two namespaces, something that joins a TAP in each, and servers in the far one."""

    def __init__(self, name, args):
        self.name, self.args = name, args
        self.near, self.far = f"vw{os.getpid()}{name}-n", f"vw{os.getpid()}{name}-f"
        self.processes = []

    def start(self, *words):
        p = subprocess.Popen([str(w) for w in words], stdout=subprocess.DEVNULL, stderr=self.log)
        self.processes.append(p)
        return p

    def inside(self, netns, *words):
        return ("ip", "netns", "exec", netns, *words)

    def __enter__(self):
        self.log = tempfile.TemporaryFile("w+")
        self.dir = tempfile.TemporaryDirectory(prefix="vw-splice-")
        try:
            for ns in self.near, self.far:
                run("ip", "netns", "add", ns)
            self.join()
            for ns, address in (self.near, NEAR), (self.far, FAR):
                self.configure(ns, address)
            self.start(*self.inside(self.far, "iperf3", "-s"))
            self.start(*self.inside(self.far, "sockperf", "server", "--tcp", "-i", FAR, "-p", "11111"))
            self.wait_for(lambda: "1 received" in run(*self.inside(self.near, "ping", "-c1", "-W1", FAR)))
            self.wait_for(lambda: run(*self.inside(self.far, "ss", "-Hltn")).count("\n") >= 2)
        except BaseException:
            self.log.seek(0)
            sys.stderr.write(self.log.read())
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for p in reversed(self.processes):
            p.terminate()
        for p in self.processes:
            try:
                p.wait(3)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        for ns in self.near, self.far:
            subprocess.run(["ip", "netns", "del", ns], capture_output=True)
        self.dir.cleanup()
        self.log.close()

    def wait_for(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for p in self.processes:
                if p.poll() is not None:
                    raise RuntimeError(f"{p.args} ended with status {p.returncode}")
            try:
                if condition():
                    return
            except subprocess.CalledProcessError:
                pass
            time.sleep(0.05)
        raise RuntimeError(f"{self.name}: not ready after {seconds} s")

    def configure(self, ns, address):
        self.wait_for(lambda: run("ip", "-n", ns, "link", "show", "tap0"))
        run("ip", "-n", ns, "link", "set", "lo", "up")
        run("ip", "-n", ns, "address", "add", f"{address}/24", "dev", "tap0")
        run("ip", "-n", ns, "link", "set", "tap0", "up")

    # ---- measurements, from the near side ----

    def iperf(self, *options):
        out = json.loads(run(*self.inside(self.near, "iperf3", "-J", "-c", FAR, "-t", self.args.seconds, *options)))
        return {"gbps": out["end"]["sum_received"]["bits_per_second"] / 1e9}

    def sockperf(self):
        out = run(*self.inside(self.near, "sockperf", "ping-pong", "--tcp", "-i", FAR, "-p", "11111", "-t",
                               self.args.seconds, "--full-rtt", "--msg-size", "64"))
        found = {}
        for line in out.splitlines():
            for percentile, key in ("percentile 50.000", "p50_us"), ("percentile 99.000", "p99_us"):
                if percentile in line:
                    found[key] = float(line.split("=")[1])
        return found


class Splice(Link):
    def join(self):
        self.start(*self.args.pin, self.args.build / "bench/tap_splice", f"--nice={self.args.nice}", self.near, "tap0",
                   self.far, "tap0")


class Vwire(Link):
    def join(self):
        vwire, sock = self.args.build / "vwire", f"{self.dir.name}/sock"
        self.start(*self.args.pin, vwire, "device", f"--socket-path={sock}", f"--port=tap:tap0,netns={self.far}",
                   f"--nice={self.args.nice}", *shlex.split(self.args.device))
        self.wait_for(lambda: os.path.exists(sock))
        self.start(*self.args.pin, vwire, "driver", f"--socket-path={sock}", f"--port=tap:tap0,netns={self.near}",
                   f"--nice={self.args.nice}", *shlex.split(self.args.driver))


METRICS = {
    "stream": lambda link: link.iperf(),
    "stream-back": lambda link: link.iperf("-R"),
    "small": lambda link: link.iperf("-l", "64"),
    "small-back": lambda link: link.iperf("-l", "64", "-R"),
    "rtt": lambda link: link.sockperf(),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build")
    parser.add_argument("--seconds", type=int, default=3, help="of one measurement")
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each link")
    parser.add_argument("--nice", type=int, default=-20, help="of all that stands between the TAPs")
    parser.add_argument("--cpu", type=int, help="to pin it to")
    parser.add_argument("--device", default="", help="more options of vwire device")
    parser.add_argument("--driver", default="", help="more options of vwire driver")
    parser.add_argument("metrics", nargs="*", metavar="METRIC", help=", ".join(METRICS))
    args = parser.parse_args()
    args.pin = ("taskset", "-c", str(args.cpu)) if args.cpu is not None else ()
    for metric in args.metrics:
        if metric not in METRICS:
            parser.error(f"no metric {metric}: there are {', '.join(METRICS)}")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was made is unmade
    with Splice("splice", args) as splice, Vwire("vwire", args) as vwire:
        for metric in args.metrics or METRICS:
            values = {}
            for _ in range(args.repeat):
                for link in splice, vwire:
                    for unit, value in METRICS[metric](link).items():
                        values.setdefault(unit, {}).setdefault(link.name, []).append(value)
            for unit in values:
                report(f"{metric.replace('-', '_')}_{unit}", "splice", values[unit])


if __name__ == "__main__":
    main()
