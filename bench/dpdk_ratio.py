#!/usr/bin/env python3
"""Packets a second through a ring: with DPDK at both ends, with `vwire device` in place of its vhost driver, with `vwire driver` in place of
its virtio-user, side by side.  Split ring, mergeable buffers, not in order, 64 and 1500 bytes, both directions.

All three stand all the time and run in turn, a fraction of a second each (A B C A B C ...), because how far apart two virtual CPUs
are changes from one second to the next.  DPDK polls, a CPU each end, and so does what stands in for it (--poll-us).  All of them have the
same real-time priority.  The end that receives counts.  A round in which an end had to wait for its CPU does not count, if enough
others are left.
What the sender does besides the ring counts too, above all with long frames.  So from the driver there are two measurements.  In `headers`
it writes the headers of a frame and sends the rest as it lies in the buffer: testpmd's txonly, and vwire's gen with `clone` (which looks whether
it lies there; testpmd does not).  In `copy` it writes all of each frame, as it comes from a port: testpmd forwards from a null port that copies,
and tries again what the ring has no room for; vwire's gen.  From the device everything is copied into the driver's buffers anyway.
Needs root, two CPUs and dpdk-testpmd; makes hugepages and takes them back.  Prints key=value lines: tx is from the driver to the device.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from ratio import report

TOP = pathlib.Path(__file__).resolve().parent.parent
HUGEPAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")
HUGE_MIB = 160  # of each testpmd; there are four, and each takes some more for its own tables
PRIORITY = 1  # of the workers
QUEUE_SIZE = 1024
SETTLE = 0.03  # seconds before counting
WAIT_MAX = 0.02  # part of a window that an end may have waited for its CPU
ROUNDS_MIN = 5  # that tell something


def set_priority(thread, priority):
    os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))


class End:
    """A process at one end of a ring, which works on `cpu`."""

    def __init__(self, cpu, words, **kw):
        self.cpu = cpu
        self.process = subprocess.Popen([str(w) for w in words], stderr=subprocess.STDOUT, text=True, **kw)

    def threads(self):
        return [int(task.name) for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()]

    def __enter__(self):
        return self

    def prioritise(self):
        """The workers will poll; so that control threads can be reached, they come first."""
        for thread in self.threads():
            set_priority(thread, PRIORITY + (os.sched_getaffinity(thread) != {self.cpu}))

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def waited(self):
        """Seconds that its threads were ready to run, and did not."""
        stats = [pathlib.Path(f"/proc/{self.process.pid}/task/{t}/schedstat").read_text() for t in self.threads()]
        return sum(int(s.split()[1]) for s in stats) / 1e9

    def wait_for(self, what, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.process.args} ended with status {self.process.returncode}")
            if time.monotonic() > end:
                raise RuntimeError(f"{self.process.args}: {what} took more than {seconds} s")
            time.sleep(0.002)


class Testpmd(End):
    """One that forwards on `cpu`; it sends frames of `size`, which it writes by `work` ("headers", "copy"), or receives (0)."""

    def __init__(self, bench, name, vdev, cpu, size, work="headers"):
        self.out = bench.dir / f"{name}.out"
        self.copies = size and work == "copy"
        vdevs = [vdev, *([f"net_null0,size={size},copy=1"] if self.copies else [])]
        forward = "io" if self.copies else "txonly" if size else "rxonly"
        super().__init__(cpu, [
            "stdbuf", "-oL", "dpdk-testpmd", "--lcores", f"0@{1 - cpu},1@{cpu}", "--main-lcore", "0", "--file-prefix",
            f"{bench.dir.name}-{name}", "--no-pci", "--no-telemetry", "--huge-dir", bench.huge, "--single-file-segments", "--iova-mode",
            "va", "-m", HUGE_MIB, *[f"--vdev={v}" for v in vdevs], "--", "-i", "--nb-cores=1", "--total-num-mbufs=16384",
            f"--txd={QUEUE_SIZE}", f"--rxd={QUEUE_SIZE}", f"--forward-mode={forward}", *([f"--txpkts={size}"] if forward == "txonly" else [])
        ], stdin=subprocess.PIPE, stdout=open(self.out, "w"))

    def ready(self):
        return "testpmd>" in self.text()

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self.tell("quit")
            self.process.wait(5)
        super().__exit__()

    def text(self):
        return self.out.read_text(errors="replace")

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def ask(self, command, answer):
        before = self.text().count(answer)
        self.tell(command)
        self.wait_for(command, lambda: self.text().count(answer) > before)

    def run(self, on):
        if not on:
            self.ask("stop", "\nDone.")
            return
        if self.copies:  # what the ring has no room for is not thrown away after it was copied
            self.tell("set burst tx delay 0 retry 1000")
            self.tell("set fwd io retry")
        self.tell("start")

    def rate(self):
        """Received packets a second since it was last asked."""
        self.ask("show port stats 0", "#" * 76 + "\n")
        return int(re.findall(r"Rx-pps:\s*(\d+)", self.text())[-1])


class Vwire(End):
    """Runs when its peer does: without room in the ring or frames in it there is nothing to do."""

    def __init__(self, bench, name, command, port, cpu, *options):
        self.ctl = bench.dir / f"{name}.ctl"
        self.kind = {"device": "tx", "driver": "rx"}[command]  # the queue that it receives on
        self.counted = (0, 0)
        super().__init__(cpu, [
            bench.args.build / "vwire", command, f"--port={port}", f"--ctl={self.ctl}", f"--cpus={cpu}",
            f"--poll-us={bench.args.poll_us}", "--log-level=error", *options
        ], stdout=sys.stderr)

    def ready(self):
        return self.ctl.exists()

    def run(self, on):
        pass

    def stats(self):
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self.ctl))
            control.sendall(b'{"id":1,"command":"stats"}\n')
            return json.loads(control.makefile().readline())["return"]

    def rate(self):
        """Received packets a second since it was last asked."""
        stats = self.stats()
        queue = next(q for q in stats["queues"] if q["kind"] == self.kind)
        if queue["broken"] or sum(queue["drops"].values()):
            raise RuntimeError(f"queue {queue['index']}: broken={queue['broken']} drops={queue['drops']}")
        before, self.counted = self.counted, (stats["uptime_us"], queue["counters"]["packets"])
        return (self.counted[1] - before[1]) * 1e6 / (self.counted[0] - before[0])


class Pair:
    """A device on CPU 0 and a driver on CPU 1; `who` of them is vwire's, if one is."""

    def __init__(self, bench, stack, who, rx, size, work):
        sock = bench.dir / f"{who}.sock"
        if who == "device":
            device = Vwire(bench, who, "device", f"gen:size={size}" if rx else "null", 0, f"--socket-path={sock}")
        else:
            device = Testpmd(bench, f"{who}-vhost", f"net_vhost0,iface={sock},queues=1", 0, size if rx else 0)
        stack.enter_context(device).wait_for("the start", device.ready)
        device.wait_for("the socket", sock.exists)
        if who == "driver":
            gen = f"gen:size={size}{',clone' if work == 'headers' else ''}"
            driver = Vwire(bench, who, "driver", "null" if rx else gen, 1, f"--socket-path={sock}", "--ring=split",
                           f"--queue-size={QUEUE_SIZE}")
        else:
            driver = Testpmd(bench, f"{who}-user", f"net_virtio_user0,path={sock},queues=1,queue_size={QUEUE_SIZE},mrg_rxbuf=1,"
                             "in_order=0,packed_vq=0", 1, 0 if rx else size, work)
        stack.enter_context(driver).wait_for("the start", driver.ready)
        for end in device, driver:
            if isinstance(end, Vwire):
                end.wait_for("the connection", lambda e=end: e.stats()["state"] == "running")
            end.prioritise()
        self.ends = [driver, device] if rx else [device, driver]  # who receives, then who sends

    def measure(self, seconds):
        """Mpps, and whether both ends had their CPUs."""
        for end in self.ends:
            end.run(True)
        time.sleep(SETTLE)
        self.ends[0].rate()
        waited = [end.waited() for end in self.ends]
        time.sleep(seconds)
        mpps = self.ends[0].rate() / 1e6
        undisturbed = all(end.waited() - w < WAIT_MAX * seconds for end, w in zip(self.ends, waited))
        for end in reversed(self.ends):
            end.run(False)
        return mpps, undisturbed


class Bench:
    def __init__(self, args):
        self.args = args

    def __enter__(self):
        self.tmp = tempfile.TemporaryDirectory(prefix="vw-dpdk-")
        self.dir = pathlib.Path(self.tmp.name)
        self.huge = self.dir / "huge"
        self.huge.mkdir()
        self.pages_before = int(HUGEPAGES.read_text())
        pages = self.pages_before + 4 * (HUGE_MIB // 2 + 8)
        HUGEPAGES.write_text(str(pages))
        if int(HUGEPAGES.read_text()) < pages:
            raise RuntimeError(f"no memory for {pages} hugepages")
        subprocess.run(["mount", "-t", "hugetlbfs", "none", self.huge], check=True)
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "--lazy", self.huge], check=False)
        HUGEPAGES.write_text(str(self.pages_before))
        for left in pathlib.Path("/var/run/dpdk").glob(f"{self.dir.name}-*"):
            shutil.rmtree(left)
        self.tmp.cleanup()

    def cell(self, names, rx, size, work):
        rounds, good = [], []
        with contextlib.ExitStack() as stack:
            pairs = [Pair(self, stack, who, rx, size, work) for who in names]
            for _ in range(self.args.rounds):
                measured = [pair.measure(self.args.seconds) for pair in pairs]
                rounds.append([mpps for mpps, _ in measured])
                if all(undisturbed for _, undisturbed in measured):
                    good.append(rounds[-1])
        if len(good) < ROUNDS_MIN:
            print(f"bench=dpdk_ratio disturbed={len(rounds) - len(good)}/{len(rounds)}: all of them count")
            good = rounds
        return {who: [turn[i] for turn in good] for i, who in enumerate(names)}


CHOICES = [("tx", "rx"), ("headers", "copy"), ("device", "driver")]


def cells(what, sizes):
    """What is to be measured: key, names, and the rest of Bench.cell()'s arguments.  Of each choice all, if `what` names none."""
    directions, works, ends = ([w for w in choice if w in what] or choice for choice in CHOICES)
    for size in sizes:
        if "tx" in directions and "headers" in works:
            yield f"tx_{size}_headers_mpps", ["dpdk", *ends], False, size, "headers"
        if "tx" in directions and "copy" in works and "driver" in ends:
            yield f"tx_{size}_copy_mpps", ["dpdk", "driver"], False, size, "copy"
        if "rx" in directions:
            yield f"rx_{size}_mpps", ["dpdk", *ends], True, size, "headers"


def main():
    words = [word for choice in CHOICES for word in choice]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build")
    parser.add_argument("--seconds", type=float, default=0.2, help="of one measurement")
    parser.add_argument("--rounds", type=int, default=15, help="measurements of each")
    parser.add_argument("--poll-us", type=int, default=1000, help="of vwire's end")
    parser.add_argument("--size", type=int, action="append", help="of a frame (default: 64 and 1500)")
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"which directions, works and ends, of: {', '.join(words)} (default: all)")
    args = parser.parse_args()
    if not set(args.what) <= set(words):
        parser.error(f"only {', '.join(words)} can be chosen from")

    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY + 1))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was made is unmade
    with Bench(args) as bench:
        for key, *cell in cells(args.what, args.size or [64, 1500]):
            report(key, "dpdk", bench.cell(*cell))


if __name__ == "__main__":
    main()
