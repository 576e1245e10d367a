"""A link under fire, a device that is lied to and two neighbours that nothing may happen to; what must hold for all of them.

    TAP a <-> device <-> proxy <-> driver <-> TAP b        under fire
    device <- liars                                        lied to
    device <-> driver                                      neighbours on the same CPU
"""
import contextlib
import os
import random
import tempfile
import time

from lab import End, Tap, Violation, sums, wait_for
from ledger import Ledger
from liar import Liar
from proxy import Proxy
from stream import Stream

NEIGHBOUR_RATE = 2000  # frames a second, each way
RSS_SLACK = 1024  # KiB that an allocator may take or give at any time
MAC = "52:54:00:00:00:01"
IDLE = 0.01  # of a CPU, that a process may use with nothing to do
STOP = 2  # seconds for an orderly end, of which the program allows itself one


class Field:
    """Everything that runs."""

    def __init__(self, vwire, seed, seconds):
        self.rng = random.Random(seed)
        self.stack = contextlib.ExitStack()
        self.dir = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="vw-soak-"))
        self.ends, self.baseline, self.audits = [], {}, 0
        try:
            self.set_up(vwire, seconds)
        except BaseException:
            self.stack.close()
            raise

    def end(self, vwire, name, command, *options):
        end = End(vwire, name, command, self.dir, *options)
        self.ends.append(end)
        self.stack.callback(lambda: end.process.poll() is None and end.kill())
        return end

    def tap(self, name):
        tap = Tap(f"vwsoak{os.getpid()}{name}", f"vws{name}")
        self.stack.callback(tap.close)
        return tap

    def set_up(self, vwire, seconds):
        def path(name):
            return f"--socket-path={self.dir}/{name}.sock"

        def port(tap):
            return f"--port=tap:{tap.name},netns={tap.netns},persist"

        cpu = f"--cpus={min(os.sched_getaffinity(0))}"
        gen = f"--port=gen:rate={NEIGHBOUR_RATE},count={int(NEIGHBOUR_RATE * seconds * 0.9)}"
        self.tap_a, self.tap_b = self.tap("a"), self.tap("b")
        self.stream = Stream(self.tap_a, self.tap_b)  # a fork: before there are sockets that it would hold open
        self.stack.callback(self.stream.close)
        self.proxy = Proxy(f"{self.dir}/proxy.sock", f"{self.dir}/device.sock")
        self.stack.callback(self.proxy.close)
        self.device = self.end(vwire, "device", "device", path("device"), port(self.tap_a), f"--mac={MAC}", cpu)
        self.driver = self.end(vwire, "driver", "driver", path("proxy"), port(self.tap_b))
        self.victim = self.end(vwire, "victim", "device", path("victim"), "--port=gen:rate=10000", cpu)
        self.near = self.end(vwire, "neighbour-device", "device", path("neighbour"), gen, cpu)
        self.far = self.end(vwire, "neighbour-driver", "driver", path("neighbour"), gen)
        self.liar = Liar(f"{self.dir}/victim.sock", self.rng)
        for end in self.device, self.driver, self.near, self.far:
            wait_for(end.running, f"{end.name} to run")
        self.ledger = Ledger(self.device, self.driver, self.tap_a, self.tap_b)

    # ---- what must hold ----

    def check_neighbours(self, finished=False):
        counts = []
        for end in self.near, self.far:
            stats = end.stats()
            if any(q["broken"] for q in stats["queues"]) or stats["port"]["dropped"]:
                raise Violation(f"{end.name}: a broken queue, or frames lost at its port")
            counts.append([sums(stats, kind) for kind in ("rx", "tx")])
            if any(drops for _, drops in counts[-1]):
                raise Violation(f"{end.name} has dropped frames: {counts[-1]}")
        return not finished or counts[0] == counts[1] == [(self.expected, 0)] * 2

    def check_holdings(self):
        for end in self.ends:
            fds, maps, rss = end.holdings()
            first = self.baseline.setdefault(end.name, (fds, maps, rss))
            if fds > first[0]:
                return f"{end.name} has {fds} fds and had {first[0]}"
            if maps > first[1] + 4:  # the C library's arenas come and go
                return f"{end.name} has {maps} mappings and had {first[1]}"
            if rss > first[2] + RSS_SLACK and self.audits > 1:
                return f"{end.name} has {rss} KiB and had {first[2]}"
        return None

    def audit(self):
        self.stream.say("pause")
        self.ledger.audit()
        self.check_neighbours()
        if not self.liar.alive():
            raise Violation("the device that is lied to does not answer")
        wait_for(lambda: self.victim.stats()["state"] == "listening", "the victim to be rid of its liars")
        wait_for(lambda: self.check_holdings() is None, self.check_holdings)
        self.audits += 1
        self.stream.say("go")

    def warm_up(self):
        """What an end takes at first use it may keep: the accounts of memory begin afterwards."""
        self.stream.say("go")
        for kind in "bytes_", "messages", "rings":
            getattr(self.liar, kind)()
        for end in self.device, self.driver:
            end.ask("set", **{"adaptive": "both"} if end is self.device else {"rx-buffers": "page"})
            end.ask("set", **{"adaptive": "off"} if end is self.device else {"rx-buffers": "auto"})
        self.stream.say(2000)
        time.sleep(0.3)

    def shares(self):
        """Of a CPU, by each end, in the next second."""
        before = [end.cpu() for end in self.ends]
        time.sleep(1)
        return [end.cpu() - then for end, then in zip(self.ends, before)]

    def finish(self, seconds):
        """The end of all; returns what each way of the stream sent and saw, the ledger's totals, the busiest idle end's share of a CPU."""
        ways = self.stream.say("pause")
        self.ledger.audit()
        totals = self.ledger.totals()
        self.expected = int(NEIGHBOUR_RATE * seconds * 0.9)
        wait_for(lambda: self.check_neighbours(finished=True), lambda: f"every frame of the neighbours: {self.expected}", 60)
        wait_for(lambda: max(self.shares()) < IDLE, lambda: f"idle ends to use no CPU: {self.shares()}")
        share = max(self.shares())
        slowest = max(end.end() for end in reversed(self.ends))
        if slowest > STOP:
            raise Violation(f"an end took {slowest:.2f} s to stop")
        left = [name for name in os.listdir(self.dir) if not name.endswith((".log", "proxy.sock", ".pcap"))]
        if left:
            raise Violation(f"left behind: {left}")
        return ways, totals, share
