"""What the end-to-end tests share: expectations, the program run in the background, and TAP on stdout.

A test is a function without arguments whose name is a sentence; @test registers it.
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

VWIRE = os.path.abspath(sys.argv[1])
SLOW = 10  # seconds that a loaded machine under a sanitizer may take for what is done at once
TESTS = []


class Skip(Exception):
    pass


def test(function):
    TESTS.append(function)
    return function


def expect(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


def expect_eq(a, b):
    expect(a == b, repr(a), "is not", repr(b))


def wait_for(condition, what, seconds=SLOW):
    deadline = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < deadline, "gave up waiting for", what)
        time.sleep(0.005)


def run(*words, **kw):
    return subprocess.run([VWIRE, *words], capture_output=True, text=True, timeout=30, **kw)


class End:
    """A device or a driver with a control socket, in the background."""

    def __init__(self, command, directory, *options, **kw):
        self.name, self.ctl, self.log = command, f"{directory}/{command}.ctl", f"{directory}/{command}.log"
        self.words = [VWIRE, command, f"--ctl={self.ctl}", *options]
        self.kw = kw
        self.start()

    def start(self):
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.words, stderr=log, **self.kw)

    def __enter__(self):
        wait_for(lambda: re.search("listening|connecting|connected", self.lines()) or self.process.poll() is not None, "start")
        expect(self.process.poll() is None, self.lines())
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def lines(self):
        return pathlib.Path(self.log).read_text()

    def said(self, words):
        wait_for(lambda: words in self.lines(), words)

    def ask(self, *words):
        return run("ctl", self.ctl, *words)

    def stats(self):
        r = self.ask("stats", "--json")
        expect_eq((r.returncode, r.stderr), (0, ""))
        return json.loads(r.stdout)

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self, sig=signal.SIGTERM):
        begin = time.monotonic()
        self.process.send_signal(sig)
        status = self.process.wait(SLOW)
        return status, time.monotonic() - begin


class Device(End):
    """`vwire device --port=null`, in a directory of its own."""

    def __init__(self, *options, socket_path=True, **kw):
        self.dir = tempfile.TemporaryDirectory(prefix="vw-test-")
        self.path = f"{self.dir.name}/sock"
        where = [f"--socket-path={self.path}"] if socket_path else []
        super().__init__("device", self.dir.name, "--port=null", *where, *options, **kw)

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.dir.cleanup()

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.path)
        return s


def packets(end):
    """By kind of queue."""
    sums = {"rx": 0, "tx": 0, "ctrl": 0}
    for q in end.stats()["queues"]:
        sums[q["kind"]] += q["counters"]["packets"]
    return sums


@contextlib.contextmanager
def link(device_options=("--port=gen",), driver_options=("--port=gen",)):
    with Device(*device_options) as device:
        with End("driver", device.dir.name, f"--socket-path={device.path}", *driver_options) as driver:
            wait_for(lambda: device.stats()["state"] == driver.stats()["state"] == "running", "the link")
            yield device, driver


def main(pattern=""):
    """Runs the registered tests whose names contain the pattern."""
    tests = [t for t in TESTS if pattern in t.__name__]
    group = pathlib.Path(sys.argv[0]).stem.removeprefix("test_")
    failures = 0
    print(f"1..{len(tests)}")
    for i, function in enumerate(tests, 1):
        name = f"{group}_{function.__name__}"
        try:
            function()
            print(f"ok {i} - {name}", flush=True)
        except Skip as why:
            print(f"ok {i} - {name} # SKIP {why}", flush=True)
        except Exception:
            failures += 1
            print(f"not ok {i} - {name}")
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), end="", flush=True)
    sys.exit(1 if failures else 0)
