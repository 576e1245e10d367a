"""What must add up, whatever happens to the link: the kernel's counts of both TAPs against both ends' counters.

    TAP a <-> device <-> proxy <-> driver <-> TAP b

For each end by itself, over its own life: every frame that it read from its TAP is delivered or counted under a reason, and every frame
that it wrote is one that it counts.  For both together: a frame that b's reader took and a's writer never wrote is one that somebody
counts as dropped, but for what was in the rings when an end was killed or the connection cut.
"""
from lab import sums, wait_for

IN_FLIGHT = 2 * 256 + 2 * 64  # both rings of 256, and a burst at each end


class Side:
    """An end and its TAP.  `reads` is the kind of queue that carries what it reads from the TAP."""

    def __init__(self, end, tap, reads):
        self.end, self.tap, self.reads = end, tap, reads
        self.writes = {"rx": "tx", "tx": "rx"}[reads]
        self.base = tap.counts()
        self.gone = {"rx": 0, "tx": 0}  # drops that earlier lives have counted

    def look(self):
        """The end's state.  What it read and the port could not use, such as a frame that came uncut before offloads went, is part of
        its port's losses, and a drop of the queue that reads."""
        stats = self.end.stats()
        self.packets, self.drops = ({kind: sums(stats, kind)[i] for kind in ("rx", "tx")} for i in (0, 1))
        self.drops[self.reads] += stats["port"]["dropped"] - (self.tap.counts()[2] - self.base[2])
        return stats["state"]

    def wrong(self):
        read, written, _ = (now - then for now, then in zip(self.tap.counts(), self.base))
        if read != self.packets[self.reads] + self.drops[self.reads]:
            return f"{self.end.name} read {read} frames, delivered {self.packets[self.reads]}, dropped {self.drops[self.reads]}"
        if written != self.packets[self.writes]:
            return f"{self.end.name} wrote {written} frames and counts {self.packets[self.writes]}"
        return None

    def all_drops(self, kind):
        return self.gone[kind] + self.drops[kind]

    def dies(self):
        """Just before the end is killed: what it has counted is remembered."""
        self.look()
        for kind in self.gone:
            self.gone[kind] += self.drops[kind]

    def begins(self):
        """Before it starts anew, with the stream at rest."""
        self.base = self.tap.counts()


class Ledger:
    def __init__(self, device, driver, tap_a, tap_b):
        self.a, self.b = Side(device, tap_a, "rx"), Side(driver, tap_b, "tx")
        self.start = tap_a.counts(), tap_b.counts()
        self.allowed = 0  # frames that kills and cuts may have cost since the last audit
        self.lost, self.uncounted = {"rx": 0, "tx": 0}, 0
        self.rest = {"rx": 0, "tx": 0}  # lost less counted, at the last audit

    def may_lose(self, ends=1):
        self.allowed += ends * IN_FLIGHT

    def totals(self):
        """{kind: (frames taken, frames delivered)} from the beginning, as the kernel has it."""
        a, b = ([now - then for now, then in zip(tap.counts(), start)]
                for tap, start in zip((self.a.tap, self.b.tap), self.start))
        return {"tx": (b[0], a[1]), "rx": (a[0], b[1])}

    def rests(self):
        return {kind: taken - delivered - self.a.all_drops(kind) - self.b.all_drops(kind)
                for kind, (taken, delivered) in self.totals().items()}

    def wrong(self):
        states = self.a.look(), self.b.look()
        if states != ("running", "running"):
            return f"the device is {states[0]}, the driver {states[1]}"
        found = self.a.wrong() or self.b.wrong()
        for kind, rest in self.rests().items():
            if not found and abs(rest - self.rest[kind]) > self.allowed:
                found = (f"{kind}: {rest - self.rest[kind]} frames more were taken than delivered or counted as dropped, "
                         f"and {self.allowed} may have been in flight")
        return found

    def audit(self):
        """With the stream at rest; waits until all adds up."""
        wait_for(lambda: self.wrong() is None, self.wrong)
        rests = self.rests()
        self.uncounted += sum(abs(rests[kind] - self.rest[kind]) for kind in rests)
        self.rest, self.allowed = rests, 0
        self.lost = {kind: taken - delivered for kind, (taken, delivered) in self.totals().items()}
