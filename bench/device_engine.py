#!/usr/bin/env python3
"""What the device's polling and coalescing do for real traffic: TCP and UDP of the kernel between two namespaces, through `vwire device` and
`vwire driver`.  One link stands all the time; the settings are changed on it (`vwire ctl set`) and measured in turn (A B C A B C ...),
because the speed of a machine changes from one second to the next.  Needs root, iperf3 and sockperf.  Prints key=value lines.

Where threads run decides more than any setting does (left to the scheduler, the same setting gave 71 and 199 kpps of small packets), so it is
fixed, and is not what is compared:
  --place=apart  the devices have the first CPU to themselves, everything else runs on the last, as on a host that gives a CPU to its network
  --place=ends   the first CPU has the devices and the programs on their side, the last the drivers and theirs

usage: device_engine.py [--build=DIR] [--seconds=N] [--repeat=N] [--loads=LOAD,...] [--place=PLACE] [PART...]
PART: poll      round trips and CPU with poll-us 0, 10, 50, 100 on one device
      neighbours the same on two devices that share one CPU, both at work; and poll-us 0 and 50 by the size of the message
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
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time

from splice_ratio import FAR, TOP, Link, run

LOADS = {  # unit that counts, and whether more of it is better
    "tx-small": ("kpps", True),
    "tx-bulk": ("gbps", True),
    "rx-bulk": ("gbps", True),
    "rtt": ("p50_us", False),
}
SIZES = 14, 64, 256, 512, 1024, 4096, 16384  # of a message: those of the series' test of two devices on one CPU


class Engine(Link):
    def __init__(self, name, args, device=""):
        super().__init__(name, args)
        self.options = shlex.split(device)
        self.command = None  # the load under way
        cpus = sorted(os.sched_getaffinity(0))
        self.cpu = {"device": cpus[0], self.near: cpus[-1], self.far: cpus[-1 if args.place == "apart" else 0]}

    def __exit__(self, *_):
        if self.command:
            self.end()
        super().__exit__()

    def inside(self, netns, *words):
        return *self.on(netns), *super().inside(netns, *words)

    def on(self, whom):
        return "taskset", "-c", str(self.cpu[whom])

    def join(self):
        vwire = self.args.build / "vwire"
        self.ctl, sock = f"{self.dir.name}/ctl", f"{self.dir.name}/sock"
        self.log_file = f"{self.dir.name}/round-trips"
        self.device = self.start(*self.on("device"), vwire, "device", f"--socket-path={sock}", f"--ctl={self.ctl}",
                                 f"--port=tap:tap0,netns={self.far}", *self.options)
        self.wait_for(lambda: os.path.exists(sock))
        self.start(*self.on(self.near), vwire, "driver", f"--socket-path={sock}", f"--port=tap:tap0,netns={self.near}")

    def set(self, setting):
        values = {"poll-us": 0, "usecs": 0, "frames": 0, "adaptive": "off"} | setting
        both = {f"{d}-{k}": values[k] for d in ("tx", "rx") for k in ("usecs", "frames")}
        words = {"poll-us": values["poll-us"], "adaptive": values["adaptive"]} | both
        run(self.args.build / "vwire", "ctl", self.ctl, "set", *(f"{k}={v}" for k, v in words.items()))

    def counters(self):
        stats = json.loads(run(self.args.build / "vwire", "ctl", self.ctl, "stats", "--json"))
        tasks = pathlib.Path(f"/proc/{self.device.pid}/task").glob("*/schedstat")
        found = {"now": time.monotonic(), "cpu": sum(int(t.read_text().split()[0]) for t in tasks) / 1e9}
        for q in stats["queues"]:
            for key in "packets", "bytes", "calls", "poll_hits", "poll_misses":
                found[key] = found.get(key, 0) + q["counters"].get(key, 0)
                found[f"{q['kind']}_{key}"] = found.get(f"{q['kind']}_{key}", 0) + q["counters"].get(key, 0)
        return found

    # ---- a load goes on while settings are changed under it ----

    def begin(self, load, size):
        """Starts it and returns when there is traffic to speak of: sockperf takes two seconds to set its clock."""
        commands = {"tx-small": ("iperf3", "-c", FAR, "-t", "600", "-u", "-b", "0", "-l", "64"),
                    "tx-bulk": ("iperf3", "-c", FAR, "-t", "600"),
                    "rx-bulk": ("iperf3", "-c", FAR, "-t", "600", "-R"),
                    "rtt": ("sockperf", "ping-pong", "--tcp", "-i", FAR, "-p", "11111", "-t", "60", "--full-rtt", "--msg-size", str(size),
                            "--full-log", self.log_file)}
        for _ in range(5):
            before, end = self.counters()["packets"], time.monotonic() + 5
            self.command = subprocess.Popen(self.inside(self.near, *commands[load]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while time.monotonic() < end and self.command.poll() is None:
                if self.counters()["packets"] > before + 100:
                    self.began = time.monotonic()
                    return
                time.sleep(0.01)
            self.end()
            time.sleep(0.2)  # iperf3's server was not done with the load before
        raise RuntimeError(f"{load}: no traffic")

    def end(self):
        self.command.send_signal(signal.SIGINT)
        self.command.wait()
        self.command = None

    def measure(self, setting, load):
        """One cell: when the setting has been in force for `--warm` seconds, `--seconds` by the device's own counters."""
        self.set(setting)
        time.sleep(self.args.warm)
        before = self.counters()
        time.sleep(self.args.seconds)
        d = {k: v - before[k] for k, v in self.counters().items()}
        cell = {"tx-small": {"kpps": d["tx_packets"] / d["now"] / 1e3},
                "tx-bulk": {"gbps": d["tx_bytes"] * 8e-9 / d["now"]},
                "rx-bulk": {"gbps": d["rx_bytes"] * 8e-9 / d["now"]},
                "rtt": {"began": before["now"]}}[load]
        cell |= {"cpu": d["cpu"] / d["now"], "cpu_us": d["cpu"] * 1e6 / d["packets"], "calls": d["calls"] / d["packets"]}
        if d["poll_hits"] + d["poll_misses"]:
            cell["poll_hits"] = d["poll_hits"] / (d["poll_hits"] + d["poll_misses"])
        return cell

    def add_round_trips(self, cells):
        """From sockperf's log.  What it calls 0 is not known, but its log begins when it has warmed up for 400 ms."""
        rows = [line.split(", ") for line in open(self.log_file) if re.match(r"\d+, ", line)]
        times = [(float(row[1]), float(row[3])) for row in rows]
        offset = self.began + 0.4 - times[0][0]
        for cell in cells:
            began = cell.pop("began") - offset
            found = sorted(us for at, us in times if began <= at < began + self.args.seconds)
            cell |= {"p50_us": found[len(found) // 2], "p99_us": found[len(found) * 99 // 100], "per_s": len(found) / self.args.seconds}


def words(setting):
    return ",".join(f"{k}={v}" for k, v in setting.items()) or "off"


def median_of(cells, unit):
    values = [c[unit] for c in cells if unit in c]
    return statistics.median(values) if values else None


def ratio_of(cells, base, unit):
    """The median of the ratios within each turn."""
    return statistics.median(a[unit] / b[unit] for a, b in zip(cells, base))


def measure_in_turn(links, load, settings, args, size):
    """Cells by setting, in the order of the rounds; all links are loaded at once."""
    cells = {words(s): [] for s in settings}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for _ in range(args.repeat):
            list(pool.map(lambda link: link.begin(load, size), links))
            turn = {words(s): list(pool.map(lambda link: link.measure(s, load), links)) for s in settings}
            for i, link in enumerate(links):
                link.end()
                if load == "rtt":
                    link.add_round_trips([found[i] for found in turn.values()])
            for name, found in turn.items():
                cells[name] += found
    return cells


def table(links, part, load, settings, args, size=64):
    """Every setting under a load, in turn.  Prints and returns the cells by setting.  `size` is that of a round trip's message."""
    cells = measure_in_turn(links, load, settings, args, size)
    unit, base = LOADS[load][0], words(settings[0])
    for name, found in cells.items():
        units = dict.fromkeys(u for c in found for u in c)
        print(f"part={part} load={load} size={size} setting={name}", *(f"{u}={median_of(found, u):.4g}" for u in units),
              f"{unit}_to_{base}={ratio_of(found, cells[base], unit):.3f}", f"n={len(found)}", flush=True)
    return cells


POLLS = [{}, {"poll-us": 10}, {"poll-us": 50}, {"poll-us": 100}]
HOLDS = [{}, {"usecs": 16, "frames": 16}, {"usecs": 64, "frames": 64}]
CHOOSES = {"adaptive": "both", "poll-us": 50}


def part_poll(args):
    with Engine("e", args) as link:
        table([link], "poll", "rtt", POLLS, args)


# T-VH-15
def part_neighbours(args):
    with Engine("e", args) as one, Engine("f", args) as two:
        table([one, two], "neighbours", "rtt", POLLS, args)
        gains = {}
        for size in SIZES:
            off, on = table([one, two], "neighbours", "rtt", [{}, {"poll-us": 50}], args, size).values()
            gains[size] = ratio_of(on, off, "per_s")
            print(f"engine_neighbours_{size}_ratio={gains[size]:.3f}", flush=True)
    print(f"engine_neighbours_gain_ratio={statistics.geometric_mean(gains.values()):.3f}\nengine_neighbours_least_ratio={min(gains.values()):.3f}",
          flush=True)


def part_coalesce(args):
    with Engine("e", args) as link:
        for load in args.loads:
            table([link], "coalesce", load, [*HOLDS, {"adaptive": "both"}], args)


# The best of several equals looks better than it is: it is chosen by some rounds and compared in others.
def part_adaptive(args):
    fixed = [h | p for p in ({}, {"poll-us": 50}) for h in HOLDS]
    with Engine("e", args) as link:
        for load in args.loads:
            unit, more = LOADS[load]
            cells = table([link], "adaptive", load, fixed, args)
            best = (max if more else min)(fixed, key=lambda s: median_of(cells[words(s)], unit))
            cells = table([link], "adaptive", load, [best, CHOOSES], args)
            ratio = ratio_of(cells[words(CHOOSES)], cells[words(best)], unit)
            print(f"engine_{load.replace('-', '_')}_of_best_ratio={ratio if more else 1 / ratio:.3f} best={words(best)}", flush=True)


PARTS = {"poll": part_poll, "neighbours": part_neighbours, "coalesce": part_coalesce, "adaptive": part_adaptive}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build")
    parser.add_argument("--seconds", type=float, default=0.8, help="of one cell")
    parser.add_argument("--warm", type=float, default=1, help="seconds before it, for policies to settle")
    parser.add_argument("--repeat", type=int, default=5, help="cells of each setting")
    parser.add_argument("--loads", type=lambda text: text.split(","), default=list(LOADS), help=",".join(LOADS))
    parser.add_argument("--place", choices=("apart", "ends"), default="apart")
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
