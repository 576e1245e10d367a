#!/usr/bin/env python3
"""`vwire bench` for real: what runs keep, and its page in a browser:  test_bench.py VWIRE SOURCE"""
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import zlib

from common import Skip, VWIRE, expect, expect_eq, main, test, wait_for

sys.path.insert(0, str(pathlib.Path(sys.argv[2]) / "tests/bench"))
import results  # noqa: E402


class Bench:
    """A run whose progress goes to a terminal."""

    def __init__(self, *words):
        self.fd, terminal = pty.openpty()
        self.process = subprocess.Popen([VWIRE, "bench", "run", *words], stdout=subprocess.PIPE, stderr=terminal, text=True)
        os.close(terminal)
        self.told = ""
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            while True:
                self.told += os.read(self.fd, 4096).decode()
        except OSError:
            pass  # the other end is closed

    def wait(self):
        out = self.process.communicate(timeout=250)[0]
        self.reader.join(10)
        os.close(self.fd)
        if self.process.returncode == 1 and re.search("namespace|may be mounted", self.told):
            raise Skip(self.told.strip())
        return out


def run(directory, *words):
    bench = Bench(*words, f"--json={directory}/r.json")
    out = bench.wait()
    expect(bench.process.returncode == 0, bench.told)
    return out, bench.told, json.loads(pathlib.Path(directory, "r.json").read_text())


def medians(result, experiment, metric):
    """{(workload, size, sessions): {variant: median}}"""
    found = {}
    for e in result["experiments"]:
        for c in e["cells"] if e["name"] == experiment else []:
            found[c["workload"], c["size"], c["sessions"]] = {
                v: sorted(r[v][metric] for r in c["rounds"])[len(c["rounds"]) // 2] for v in e["variants"]
                if metric in c["rounds"][0].get(v, {})}
    return found


@test
def receive_buffers_are_of_the_size_that_the_variant_names():
    with tempfile.TemporaryDirectory(prefix="vwire-bench.") as d:
        out, told, result = run(d, "autotune", "--quick", "--repeat=1")
        expect(re.search(r"about \d+ seconds", told) and re.search(r"\d+ %, \d+:\d\d left", told), told)
        expect(result["complete"], "not complete")
        for cell, sizes in medians(result, "autotune", "buffer_size").items():
            expect(sizes["page"] == 4096 and 1500 < sizes["mtu"] < 2048 and 1500 < sizes["auto"] <= 4096, cell, sizes)
        for c in result["experiments"][0]["cells"]:
            expect(set(c["buffer_sizes"]["page"]) == {"4096"}, c["buffer_sizes"])
            expect(set(c["buffer_sizes"]["mtu"]) == {"1536"}, c["buffer_sizes"])
            expect(sum(c["buffer_sizes"]["auto"].values()) > 0, c["buffer_sizes"])


@test
def tx_interrupts_come_where_the_variant_asks_for_them():
    with tempfile.TemporaryDirectory(prefix="vwire-bench.") as d:
        result = run(d, "txintr", "--quick", "--repeat=1")[2]
        for cell, rate in medians(result, "txintr", "tx_interrupts").items():
            packets = medians(result, "txintr", "tx_packets")[cell]
            if cell[0] == "TCP_RR":
                expect(rate["none"] < packets["none"] / 20, cell, rate)
                expect(rate["lazy"] < packets["lazy"] / 20, cell, rate)
                expect(rate["at once"] > packets["at once"] / 20, cell, rate)


@test
def a_linux_guest_takes_the_drivers_place():
    if not shutil.which("linux.uml"):
        raise Skip("needs linux.uml")
    with tempfile.TemporaryDirectory(prefix="vwire-bench.") as d:
        result = run(d, "txintr", "--quick", "--repeat=1", "--guest=uml")[2]
        expect_eq(result["settings"]["guest"], "uml")
        for c in result["experiments"][0]["cells"]:
            expect_eq(list(c["rounds"][0]), ["at once", "16 or 16 us"])
            for metric in results.HEADLINES[c["workload"]], "tx_packets", "cpu":
                expect(all(sample[metric] > 0 for sample in c["rounds"][0].values()), c)
        for cell, rate in medians(result, "txintr", "tx_interrupts").items():
            expect(cell[0] != "TCP_RR" or rate["at once"] > 0, cell, rate)  # Linux asks for them
        r = subprocess.run([VWIRE, "bench", "run", "kick", "--guest=uml"], capture_output=True, text=True)
        expect_eq((r.returncode, r.stderr), (2, "vwire bench: --guest=uml: kick needs settings that only vwire's own driver has\n"))


@test
def sigint_keeps_what_is_done():
    with tempfile.TemporaryDirectory(prefix="vwire-bench.") as d:
        bench = Bench("ring", "--quick", f"--json={d}/r.json")
        wait_for(lambda: bench.told.count(" left") > 3 or bench.process.poll() is not None, "three rounds", 60)
        bench.process.send_signal(signal.SIGINT)
        out = bench.wait()
        expect_eq(bench.process.returncode, 0)
        expect("not complete" in out, out)
        result = json.loads(pathlib.Path(d, "r.json").read_text())
        rounds = [len(c["rounds"]) for e in result["experiments"] for c in e["cells"]]
        expect(not result["complete"] and sum(rounds) >= 3, rounds)
        expect(all(r["split"]["mpps"] > 0 for r in result["experiments"][0]["cells"][0]["rounds"]), result)


# ---- the page in a browser ----

def browse(directory, *words):
    """Chromium without a network, in a home of its own."""
    r = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={directory}/chromium", "--window-size=1300,1600",
                        *words, f"file://{directory}/page.html"], capture_output=True, timeout=120)
    expect(r.returncode == 0, r.stderr.decode())
    return r.stdout.decode()


def pixels(path):
    """The rows of an 8-bit PNG, as bytes."""
    data, at, packed = pathlib.Path(path).read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, _, depth, color = struct.unpack(">IIBB", data[at + 8:at + 18])
        elif kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    expect(depth == 8 and color in (2, 6), depth, color)
    n = 3 if color == 2 else 4
    raw, stride, before, rows = zlib.decompress(packed), width * n, bytes(width * n), []
    for start in range(0, len(raw), stride + 1):
        row = unfilter(raw[start], bytearray(raw[start + 1:start + 1 + stride]), before, n)
        rows.append(row)
        before = row
    return rows


def unfilter(kind, row, before, n):
    for i in range(len(row)):
        a, b, c = (row[i - n] if i >= n else 0), before[i], (before[i - n] if i >= n else 0)
        if kind == 4:
            p = a + b - c
            add = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        else:
            add = (0, a, b, (a + b) // 2)[kind]
        row[i] = (row[i] + add) & 255
    return row


def brightness(rows):
    return sum(sum(row[::16]) for row in rows[::8]) / sum(len(row[::16]) for row in rows[::8])


@test
def the_page_in_a_browser_has_the_tables_of_the_results():
    for tool in "chromium", "gnuplot":
        if not shutil.which(tool):
            raise Skip(f"needs {tool}")
    with tempfile.TemporaryDirectory(prefix="vwire-bench.") as d:
        result = results.invent(5, 1)
        pathlib.Path(d, "r.json").write_text(json.dumps(result))
        r = subprocess.run([VWIRE, "bench", "report", f"{d}/r.json", f"--html={d}/page.html"], capture_output=True, text=True)
        expect_eq((r.returncode, r.stderr), (0, ""))
        page = results.Page(browse(d, "--dump-dom"))
        for key, rows in results.tables(result).items():
            expect_eq(page.tables.get(key), rows)
        expect(all(page.charts.get(name) for name in results.EXPERIMENTS), page.charts)
        browse(d, f"--screenshot={d}/light.png")
        browse(d, f"--screenshot={d}/dark.png", "--blink-settings=preferredColorScheme=0")
        light, dark = (brightness(pixels(f"{d}/{mode}.png")) for mode in ("light", "dark"))
        expect(light > 200 and dark < 80, light, dark)
        browse(d, f"--print-to-pdf={d}/page.pdf")
        expect(pathlib.Path(d, "page.pdf").read_bytes().startswith(b"%PDF"), "no PDF")


if __name__ == "__main__":
    main(*sys.argv[3:])
