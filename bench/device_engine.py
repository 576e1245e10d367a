#!/usr/bin/env python3
"""What the device's polling and coalescing do for real traffic: TCP and UDP of the kernel between two namespaces, through `vwire device` and
`vwire driver`.  One link stands all the time; the settings are changed on it (`vwire ctl set`) and measured in turn (A B C A B C ...),
because the speed of a machine changes from one second to the next.  Needs root, iperf3 and sockperf.  Prints key=value lines.

usage: device_engine.py [--build=DIR] [--seconds=N] [--repeat=N] [PART...]
PART: poll      round trips and CPU with poll-us 0, 10, 50, 100 on one device
      neighbours the same on two devices that share one CPU, both at work
      coalesce  calls a packet, throughput and CPU with coalescing off, 16/16, 64/64, adaptive
      adaptive  what chooses by itself (adaptive=both poll-us=50) against every fixed setting; the ratio to the best of them
Without parts all of them.  `cpu` is that of the device's process, 1.0 for a whole CPU; `cpu_us` the same by packet; `calls` its
interrupts by packet.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import signal
import statistics
import subprocess
import sys
import time

from splice_ratio import TOP, Link, run

LOADS = {  # unit that counts, and whether more of it is better
    "tx-small": ("kpps", True),
    "tx-bulk": ("gbps", True),
    "rx-bulk": ("gbps", True),
    "rtt": ("p50_us", False),
}


class Engine(Link):
    def __init__(self, name, args, device=""):
        super().__init__(name, args)
        self.options = shlex.split(device)

    def join(self):
        vwire = self.args.build / "vwire"
        self.ctl, sock = f"{self.dir.name}/ctl", f"{self.dir.name}/sock"
        self.device = self.start(vwire, "device", f"--socket-path={sock}", f"--ctl={self.ctl}",
                                 f"--port=tap:tap0,netns={self.far}", *self.options)
        self.wait_for(lambda: os.path.exists(sock))
        self.start(vwire, "driver", f"--socket-path={sock}", f"--port=tap:tap0,netns={self.near}")

    def set(self, setting):
        values = {"poll-us": 0, "usecs": 0, "frames": 0, "adaptive": "off"} | setting
        both = {f"{d}-{k}": values[k] for d in ("tx", "rx") for k in ("usecs", "frames")}
        words = {"poll-us": values["poll-us"], "adaptive": values["adaptive"]} | both
        run(self.args.build / "vwire", "ctl", self.ctl, "set", *(f"{k}={v}" for k, v in words.items()))

    def counters(self):
        stats = json.loads(run(self.args.build / "vwire", "ctl", self.ctl, "stats", "--json"))
        sums = {k: sum(q["counters"].get(k, 0) for q in stats["queues"])
                for k in ("packets", "calls", "kicks", "poll_hits", "poll_misses", "poll_ns")}
        tasks = pathlib.Path(f"/proc/{self.device.pid}/task").glob("*/schedstat")
        sums["cpu_ns"] = sum(int(t.read_text().split()[0]) for t in tasks)
        sums["tx"] = sum(q["counters"]["packets"] for q in stats["queues"] if q["kind"] == "tx")
        return sums

    def measure(self, load):
        for tries in range(5):
            try:
                return self.measure_once(load)
            except (KeyError, subprocess.CalledProcessError):  # iperf3's server was not done with the last cell
                if tries == 4:
                    raise
                time.sleep(0.5)

    def measure_once(self, load):
        loads = {"tx-small": lambda: self.iperf("-u", "-b", "0", "-l", "64"),
                 "tx-bulk": lambda: self.iperf(),
                 "rx-bulk": lambda: self.iperf("-R"),
                 "rtt": self.sockperf}
        before, began = self.counters(), time.monotonic()
        found = loads[load]()
        took = time.monotonic() - began
        d = {k: v - before[k] for k, v in self.counters().items()}
        if load == "tx-small":
            found = {"kpps": d["tx"] / self.args.seconds / 1e3}
        found |= {"cpu": d["cpu_ns"] / 1e9 / took, "cpu_us": d["cpu_ns"] / 1e3 / max(d["packets"], 1), "calls": d["calls"] / max(d["packets"], 1)}
        if d["poll_hits"] + d["poll_misses"]:
            found["poll_hits"] = d["poll_hits"] / (d["poll_hits"] + d["poll_misses"])
        return found


def words(setting):
    return ",".join(f"{k}={v}" for k, v in setting.items()) or "off"


def median_of(cells, unit):
    values = [c[unit] for c in cells if unit in c]
    return statistics.median(values) if values else None


def table(links, part, loads, settings, args):
    """Every setting under every load, interleaved; all links at once.  Returns the cells by (load, setting)."""
    cells = {}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for load in loads:
            for _ in range(args.repeat):
                for setting in settings:
                    for link in links:
                        link.set(setting)
                    cells.setdefault((load, words(setting)), []).extend(pool.map(lambda link: link.measure(load), links))
            for setting in settings:
                found = cells[load, words(setting)]
                units = dict.fromkeys(u for c in found for u in c)
                print(f"part={part} load={load} setting={words(setting)}",
                      *(f"{u}={median_of(found, u):.4g}" for u in units), f"n={len(found)}", flush=True)
                unit = LOADS[load][0]
                base = median_of(cells[load, words(settings[0])], unit)
                print(f"part={part} load={load} setting={words(setting)} {unit}_to_{words(settings[0])}="
                      f"{median_of(found, unit) / base:.3f}", flush=True)
    return cells


POLLS = [{}, {"poll-us": 10}, {"poll-us": 50}, {"poll-us": 100}]
HOLDS = [{}, {"usecs": 16, "frames": 16}, {"usecs": 64, "frames": 64}]
CHOOSES = {"adaptive": "both", "poll-us": 50}


def part_poll(args):
    with Engine("e", args) as link:
        table([link], "poll", ["rtt"], POLLS, args)


# T-VH-15
def part_neighbours(args):
    with Engine("e", args, f"--cpus={args.cpu}") as one, Engine("f", args, f"--cpus={args.cpu}") as two:
        cells = table([one, two], "neighbours", ["rtt"], POLLS, args)
    p50 = {s: median_of(cells["rtt", s], "p50_us") for s in map(words, POLLS)}
    gains = [p50["off"] / p50[s] for s in p50 if s != "off"]
    print(f"engine_neighbours_gain_ratio={statistics.geometric_mean(gains):.3f} least={min(gains):.3f}", flush=True)


def part_coalesce(args):
    with Engine("e", args) as link:
        table([link], "coalesce", list(LOADS), [*HOLDS, {"adaptive": "both"}], args)


def part_adaptive(args):
    fixed = [h | p for p in ({}, {"poll-us": 50}) for h in HOLDS]
    with Engine("e", args) as link:
        cells = table([link], "adaptive", list(LOADS), [*fixed, CHOOSES], args)
    for load, (unit, more) in LOADS.items():
        best = (max if more else min)(fixed, key=lambda s: median_of(cells[load, words(s)], unit))
        ratio = median_of(cells[load, words(CHOOSES)], unit) / median_of(cells[load, words(best)], unit)
        print(f"engine_{load.replace('-', '_')}_of_best_ratio={ratio if more else 1 / ratio:.3f} best={words(best)}", flush=True)


PARTS = {"poll": part_poll, "neighbours": part_neighbours, "coalesce": part_coalesce, "adaptive": part_adaptive}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build")
    parser.add_argument("--seconds", type=int, default=1, help="of one cell")
    parser.add_argument("--repeat", type=int, default=5, help="cells of each setting")
    parser.add_argument("--cpu", type=int, default=0, help="that neighbours share")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    args = parser.parse_args()
    for part in args.parts:
        if part not in PARTS:
            parser.error(f"no part {part}: there are {', '.join(PARTS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was made is unmade
    for part in args.parts or PARTS:
        PARTS[part](args)


if __name__ == "__main__":
    main()
