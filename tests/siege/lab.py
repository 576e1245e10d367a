"""Namespaces with a persistent TAP each, programs under test, and their control sockets."""
import contextlib
import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
PATIENCE = 20  # seconds for what is done at once on a machine that nobody else uses


class Violation(Exception):
    """Something that must hold does not."""


def wait_for(condition, what, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Violation(f"gave up waiting for {what() if callable(what) else what}")
        time.sleep(0.002)


@contextlib.contextmanager
def inside(netns):
    """The calling thread in the namespace."""
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{netns}") as there:
        if LIBC.setns(there.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            LIBC.setns(home.fileno(), CLONE_NEWNET)


class Tap:
    """A TAP that outlives whoever holds it, in a namespace of its own: the kernel's count of what crossed it is nobody's else."""

    def __init__(self, netns, name):
        self.netns, self.name = netns, name
        self.ip("netns", "add", netns, where=[])
        self.ip("tuntap", "add", name, "mode", "tap", "vnet_hdr")
        self.ip("link", "set", name, "txqueuelen", "500")
        self.ip("link", "set", name, "up")
        with inside(netns):
            pathlib.Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
            self.dev = os.open("/proc/thread-self/net/dev", os.O_RDONLY)

    def ip(self, *words, where=None):
        subprocess.run(["ip", *(["-n", self.netns] if where is None else where), *words], check=True, capture_output=True)

    def counts(self):
        """(frames read from it, frames written to it, frames that its queue lost before they were read)"""
        for line in os.pread(self.dev, 1 << 16, 0).decode().splitlines():
            if line.strip().startswith(self.name + ":"):
                words = line.split(":")[1].split()
                return int(words[9]), int(words[1]), int(words[11])
        raise Violation(f"{self.name} is gone")

    def set(self, state):
        self.ip("link", "set", self.name, state)

    def socket(self, protocol, *options):
        with inside(self.netns):
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
            for number, value in options:
                s.setsockopt(263, number, value)  # SOL_PACKET
            s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
            s.bind((self.name, protocol))
        return s

    def close(self):
        os.close(self.dev)
        self.ip("netns", "del", self.netns, where=[])


class End:
    """One process of the program under test, which may be ended and begun again."""

    def __init__(self, vwire, name, command, directory, *options):
        self.name, self.ctl, self.log = name, f"{directory}/{name}.ctl", f"{directory}/{name}.log"
        self.words = [vwire, command, f"--ctl={self.ctl}", *options]
        self.process, self.lives, self.last = None, 0, None
        self.start()

    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(self.words, stderr=log, stdin=subprocess.DEVNULL)
        self.lives += 1
        wait_for(self.answers, lambda: f"{self.name} to start: {self.tail()}")

    def tail(self):
        return pathlib.Path(self.log).read_text()[-600:]

    def ask(self, command, **arguments):
        """The answer, an error's too; None where nobody answers."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            try:
                s.connect(self.ctl)
                s.sendall(json.dumps({"id": 1, "command": command, "arguments": arguments}).encode() + b"\n")
                data = b""
                while not data.endswith(b"\n"):
                    part = s.recv(1 << 16)
                    if not part:
                        return None
                    data += part
            except OSError:
                return None
        return json.loads(data)

    def answers(self):
        if self.process.poll() is not None:
            raise Violation(f"{self.name} ended with status {self.process.returncode}: {self.tail()}")
        return self.ask("get") is not None

    def stats(self):
        answer = self.ask("stats")
        if answer is None:
            raise Violation(f"{self.name} does not answer, status {self.process.poll()}: {self.tail()}")
        return answer["return"]

    def running(self):
        return self.stats()["state"] == "running"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        pathlib.Path(self.ctl).unlink(missing_ok=True)  # so that only its successor answers there

    def end(self):
        """Seconds that an orderly end took."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        if status:
            raise Violation(f"{self.name} ended with status {status}: {self.tail()}")
        return time.monotonic() - begin

    def holdings(self):
        """(fds, mappings, resident private KiB)"""
        base = f"/proc/{self.process.pid}"
        rss = [line.split()[1] for line in pathlib.Path(f"{base}/status").read_text().splitlines() if line.startswith("RssAnon")]
        with open(f"{base}/maps") as maps:
            return len(os.listdir(f"{base}/fd")), sum(1 for _ in maps), int(rss[0])

    def cpu(self):
        """Seconds of CPU time so far."""
        return sum(int(t.read_text().split()[0]) for t in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")) / 1e9


def sums(stats, kind):
    """(packets, drops) of the queues of a kind."""
    queues = [q for q in stats["queues"] if q["kind"] == kind]
    return sum(q["counters"]["packets"] for q in queues), sum(sum(q["drops"].values()) for q in queues)
