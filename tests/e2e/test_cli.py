#!/usr/bin/env python3
"""The program as a user meets it: words in, lines out, exit statuses, signals.  Prints TAP.

usage: test_cli.py BUILD/vwire SOURCE_DIR [PATTERN]
"""
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

from common import SLOW, VWIRE, Device, End, Skip, expect, expect_eq, link, main, run, test, wait_for

SOURCE = pathlib.Path(sys.argv[2])
COMMANDS = re.findall(r"^  (\w+) ", run("--help").stdout, re.M)


def get_features(s):
    """A request of the protocol and its answer: the device lives and serves this connection."""
    s.settimeout(SLOW)
    s.sendall(bytes([1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]))
    reply = s.recv(20)
    expect_eq((len(reply), reply[:8]), (20, bytes([1, 0, 0, 0, 5, 0, 0, 0])))


# ---- words ----

@test
def version_is_one_line():
    r = run("--version")
    expect(re.fullmatch(r"vwire \d+\.\d+\.\d+\n", r.stdout), r.stdout)
    expect_eq((r.returncode, r.stderr), (0, ""))


@test
def help_lists_the_commands_and_each_explains_itself():
    r = run("--help")
    expect_eq(r.returncode, 0)
    expect(len(COMMANDS) >= 2, r.stdout)
    for command in COMMANDS:
        r = run(command, "--help")
        expect_eq((r.returncode, r.stderr), (0, ""))
        expect(r.stdout.startswith(f"usage: vwire {command} "), r.stdout)
        expect(re.search(rf"\nexamples:\n  vwire {command}\b", r.stdout), "no examples at the end of", command)


@test
def every_option_stands_in_the_manual():
    for command in COMMANDS:
        page = SOURCE / "docs" / f"vwire-{command}.1"
        if not page.exists():
            continue
        manual = page.read_text()
        for option in re.findall(r"^  --([\w-]+)", run(command, "--help").stdout, re.M):
            expect(f"Fl -{option} " in manual or f"Fl -{option}\n" in manual, page.name, "lacks", option)


@test
def every_counter_and_reason_is_explained_in_the_manual():
    manual = (SOURCE / "docs" / "vwire-ctl.1").read_text()
    terms = {term for item in re.findall(r"^\.It Sy (.+)\n[^.]", manual, re.M) for term in item.split(" , ")}
    broken = {reason for source in (SOURCE / "src" / "ring").glob("split_*.c")
              for reason in re.findall(r'(?:break|lie)\([\w>-]+, "([\w-]+)"', source.read_text())}
    expect(len(broken) >= 8, broken)
    expect_eq(sorted(broken - terms), [])
    with Device() as d:
        queue = d.stats()["queues"][1]
        expect_eq(sorted(set(queue["drops"]) - terms), [])
        expect_eq(sorted(set(queue["counters"]) - terms), [])


USAGE_ERRORS = [
    ("", "vwire: a command is missing: see vwire --help"),
    ("--frobnicate", "vwire: unknown option --frobnicate: see vwire --help"),
    ("devcie", "vwire: unknown command devcie: did you mean device?"),
    ("device", "vwire device: --port=PORT is missing: see vwire device --help"),
    ("device --port=null", "vwire device: give one of --socket-path=PATH and --fd=N: see vwire device --help"),
    ("device --port=null --socket-path=/a --fd=3", "vwire device: give one of --socket-path=PATH and --fd=N: see vwire device --help"),
    ("device --port=null --fd=3 --client", "vwire device: --client needs --socket-path=PATH"),
    ("device --port=null --fd=999", "vwire device: --fd=999 is not a socket: Bad file descriptor"),
    ("device --poll-us=200000", "vwire device: --poll-us=200000 is over the limit 100000"),
    ("device --queues=0", "vwire device: --queues=0 is under the limit 1"),
    ("device --queues=65", "vwire device: --queues=65 is over the limit 64"),
    ("device --tx-usecs=10001", "vwire device: --tx-usecs=10001 is over the limit 10000"),
    ("device --rx-frames=1025", "vwire device: --rx-frames=1025 is over the limit 1024"),
    ("device --mtu=67", "vwire device: --mtu=67 is under the limit 68"),
    ("device --nice=20", "vwire device: --nice=20 is over the limit 19"),
    ("device --port=null --socket-path=/a --features=+ring_packed", "vwire device: --features=+ring_packed is not built: this end has no such feature"),
    ("driver --port=null --socket-path=/a --features=-csum,+ctrl_rx_extra", "vwire driver: --features=+ctrl_rx_extra is not built: this end has no such feature"),
    ("driver --port=null --socket-path=/a --adaptive=rx --rx-frames=1", "vwire driver: --adaptive leaves --rx-usecs and --rx-frames to the device"),
    ("driver --port=null --socket-path=/a --adaptive=both --tx-usecs=1", "vwire driver: --adaptive leaves --tx-usecs and --tx-frames to the device"),
    ("driver --adaptive=on", "vwire driver: --adaptive=on is not one of off, rx, tx, both"),
    ("device --adaptive=yes", "vwire device: --adaptive=yes is not one of off, rx, tx, both"),
    ("device --queue-num=queues", "vwire device: --queue-num=queues is not one of pairs, vrings"),
    ("device --log-level=loud", "vwire device: --log-level=loud is not one of error, warn, info, debug"),
    ("device --port=", "vwire device: --port= is empty: PORT is needed"),
    ("device --socket-path=" + "x" * 108, "vwire device: --socket-path=" + "x" * 100 + " is over the limit of 107 bytes for a socket's path"),
    ("device --socket-group=no-such-group", "vwire device: --socket-group=no-such-group is neither a group's name nor its number"),
    ("device --sokcet-path=/a", "vwire device: unknown option --sokcet-path: did you mean --socket-path?"),
    ("device --client=1", "vwire device: --client=1: --client takes no value"),
    ("device --port", "vwire device: --port needs a value"),
    ("device word", "vwire device: word is a word too many"),
    ("device --socket-path=/tmp/x --port=nul", None),
    ("device --socket-path=/tmp/x --port=gen:size=1", "vwire device: --port=gen:size=1: size=1 is under the limit 60"),
    ("device --socket-path=/tmp/x --port=xdp:eth0", None),
    ("device --socket-path=/tmp/x --port=tap:fd=999", "vwire device: --port=tap:fd=999: fd 999 is not a TAP's"),
    ("ctl", "vwire ctl: the PATH of a control socket is missing: see vwire ctl --help"),
    ("ctl /a", "vwire ctl: a COMMAND is missing: see vwire ctl --help"),
    ("ctl /a stat", "vwire ctl: unknown command stat: did you mean stats?"),
    ("ctl /a set", "vwire ctl: set takes 1 to 1024 words, not 0: see vwire ctl --help"),
    ("ctl /a set poll-us", "vwire ctl: poll-us needs a value, as in poll-us=64"),
    ("ctl /a set poll-us=100001", "vwire ctl: poll-us=100001 is over the limit 100000"),
    ("ctl /a set pol-us=1", "vwire ctl: there is no setting pol-us"),
    ("ctl /a why x", "vwire ctl: why x: a queue is a number of 0..128"),
    ("ctl /a link sideways", "vwire ctl: link sideways is not one of up, down"),
    ("ctl /a get --watch", "vwire ctl: --watch goes with stats only"),
    ("ctl /a stats --watch=5", "vwire ctl: --watch=5 is under the limit 100"),
    ("ctl /a stats --json --prometheus", "vwire ctl: --prometheus and --json do not go together"),
    ("ctl /a stats --watch --prometheus", "vwire ctl: --prometheus and --watch do not go together"),
    ("demo --seconds=0", "vwire demo: --seconds=0 is under the limit 1"),
    ("driver --socket-path=/a", "vwire driver: --port=PORT is missing: see vwire driver --help"),
    ("driver --port=null", "vwire driver: --socket-path=PATH is missing: see vwire driver --help"),
    ("driver --queue-size=100", "vwire driver: --queue-size=100 is not a power of two of 2..32768"),
    ("driver --port=null --socket-path=/a --ring=packed", None),
]


@test
def usage_errors_are_one_line_that_names_option_value_and_limit():
    for words, line in USAGE_ERRORS:
        words = words.split(" ") if words else []
        if words and words[0] in ("demo", "driver") and words[0] not in COMMANDS:
            continue
        r = run(*words)
        expect_eq((words, r.returncode, r.stdout), (words, 2, ""))
        expect(r.stderr.count("\n") == 1 and r.stderr.endswith("\n"), r.stderr)
        expect(line is None or r.stderr == line + "\n", r.stderr, "is not", line)


@test
def capabilities_are_what_qemu_asks_for():
    r = run("device", "--print-capabilities")
    expect_eq((r.returncode, r.stdout, r.stderr), (0, '{"type":"net","features":[]}\n', ""))


@test
def what_cannot_be_written_is_a_failure():
    with Device() as d:
        for words in ["--help"], ["--version"], ["device", "--help"], ["device", "--print-capabilities"], ["bench", "list"], \
                     ["ctl", d.ctl, "stats"], ["ctl", d.ctl, "get"], ["ctl", d.ctl, "stats", "--watch=100"]:
            with open("/dev/full", "w") as full:
                r = subprocess.run([VWIRE, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=SLOW)
            expect_eq((words, r.returncode, r.stderr), (words, 1, "vwire: standard output could not be written\n"))


# ---- logs ----

@test
def the_listening_line_is_exact():
    with Device() as d:
        expect_eq(d.lines(), f"info device: listening path={d.path}\n")


@test
def json_logs_are_objects():
    with Device("--log-format=json") as d:
        line = json.loads(d.lines())
        expect(abs(line.pop("time_ms") / 1000 - time.time()) < 60)
        expect_eq(line, {"level": "info", "component": "device", "text": "listening", "path": d.path})


@test
def json_logs_have_pairs_with_words_in_them_as_members():
    with Device("--log-format=json") as d:
        s = d.connect()
        get_features(s)
        s.close()
        d.said("front end has gone")
        line = next(json.loads(text) for text in d.lines().splitlines() if "front end has gone" in text)
        expect_eq(line["text"], "front end has gone")
        expect(" " in line["why"] and '"' not in line["why"], line)


@test
def log_values_of_any_kind_become_members():
    for name in ("a b", 'a="b', "a=b", "a\\b", 'say "a b"', "a=\"b\" c=d", '"', "\\", "a\nb", "h\u00fctte", " a", "a "):
        with tempfile.TemporaryDirectory(prefix="vw-test-") as directory:
            path = f"{directory}/{name}"
            for words in (["device", "--port=null"], ["driver", "--server", "--port=null"]):
                p = subprocess.Popen([VWIRE, *words, f"--socket-path={path}", "--log-format=json"], stderr=subprocess.PIPE, text=True)
                line = json.loads(p.stderr.readline())
                p.terminate()
                p.communicate(timeout=SLOW)
                del line["time_ms"]
                expect_eq(line, {"level": "info", "component": words[0], "text": "listening", "path": path})
            with Device(f"--socket-path={path}", socket_path=False), End("driver", directory, "--port=null", f"--socket-path={path}", "--log-format=json") as d:
                d.said('"connected"')
                lines = [json.loads(line) for line in d.lines().splitlines()]
                expect_eq([(line["text"], line["path"]) for line in lines], [("connecting", path), ("connected", path)])


@test
def log_levels_hold_back():
    d = Device("--log-level=error")
    try:
        wait_for(lambda: os.path.exists(d.path), "the socket")
        expect_eq(d.end()[0], 0)
        expect_eq(d.lines(), "")
    finally:
        d.__exit__()


# ---- the socket ----

@test
def a_stale_socket_is_replaced_and_others_are_not():
    with Device() as d:
        r = run("device", "--port=null", f"--socket-path={d.path}")
        expect_eq(r.returncode, 1)
        expect_eq(r.stderr, f"error device: {d.path} is in use: another process listens there\n")
        d.process.kill()
        d.process.wait()
        expect(os.path.exists(d.path))
        again = subprocess.Popen([VWIRE, "device", "--port=null", f"--socket-path={d.path}"], stderr=subprocess.PIPE, text=True)
        expect_eq(again.stderr.readline(), f"info device: listening path={d.path}\n")
        again.terminate()
        expect_eq(again.wait(SLOW), 0)
        again.stderr.close()
        pathlib.Path(d.path).write_text("precious")
        r = run("device", "--port=null", f"--socket-path={d.path}")
        expect_eq(r.returncode, 1)
        expect(f"{d.path} exists and is no socket" in r.stderr, r.stderr)
        expect_eq(pathlib.Path(d.path).read_text(), "precious")


@test
def socket_mode_is_as_asked():
    with Device("--socket-mode=660") as d:
        expect_eq(os.stat(d.path).st_mode & 0o777, 0o660)
        expect_eq(os.stat(d.ctl).st_mode & 0o777, 0o600)


@test
def sigterm_sigint_and_sighup_end_in_order():
    for sig in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
        with Device() as d:
            status, seconds = d.end(sig)
            expect_eq(status, 0)
            expect(seconds < 1, f"took {seconds} s")
            expect(not os.path.exists(d.path) and not os.path.exists(d.ctl), "a socket was left behind")


@test
def nohup_is_obeyed():
    with Device(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as d:
        d.process.send_signal(signal.SIGHUP)
        expect_eq(d.ask("get").returncode, 0)
        expect_eq(d.end()[0], 0)


# hostile K15
@test
def a_front_end_that_hangs_does_not_delay_the_end():
    with Device() as d:
        s = d.connect()
        get_features(s)
        s.sendall(b"\x01\x00\x00")  # half a header, and no more
        status, seconds = d.end()
        expect_eq(status, 0)
        expect(seconds < 1, f"took {seconds} s")
        s.close()


# hostile K06
@test
def a_second_front_end_is_refused_with_a_word():
    with Device() as d:
        first = d.connect()
        get_features(first)
        second = d.connect()
        second.settimeout(SLOW)
        expect_eq(second.recv(1), b"")
        d.said("warn device: refused a second front end: this socket serves one at a time\n")
        get_features(first)
        expect_eq(d.stats()["state"], "connected")
        first.close()
        second.close()


# hostile N05
@test
def refusals_do_not_flood_the_log():
    with Device() as d:
        first = d.connect()
        get_features(first)
        for _ in range(200):
            second = d.connect()
            second.settimeout(SLOW)
            second.recv(1)
            second.close()
        n = d.lines().count("refused a second front end")
        expect(n <= 30, n, "lines")
        time.sleep(1.1)
        d.connect().close()
        d.said(" suppressed=")
        first.close()


@test
def it_listens_again_after_each_disconnect():
    with Device() as d:
        time.sleep(0.05)
        before = d.fds()
        for _ in range(100):
            s = d.connect()
            get_features(s)
            s.close()
        wait_for(lambda: d.stats()["state"] == "listening", "the last to leave")
        wait_for(lambda: d.fds() <= before, f"{before} fds")
        expect_eq(d.end()[0], 0)


# hostile K08
@test
def a_client_connects_for_ever():
    with Device("--client") as d:
        d.said("nobody listens yet")
        for _ in range(3):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(d.path)
            listener.listen()
            listener.settimeout(SLOW)
            begin = time.monotonic()
            s = listener.accept()[0]
            expect(time.monotonic() - begin < 1.5, "took longer than the back-off allows")
            get_features(s)
            listener.close()
            os.unlink(d.path)
            s.close()
            time.sleep(0.3)
        expect_eq(d.end()[0], 0)


@test
def an_inherited_listening_socket_is_served_for_ever():
    listener = socket.socket(socket.AF_UNIX)
    with tempfile.TemporaryDirectory(prefix="vw-test-cli-") as directory:
        listener.bind(directory + "/sock")
        listener.listen()
        with Device(f"--fd={listener.fileno()}", socket_path=False, pass_fds=[listener.fileno()]) as d:
            for _ in range(3):
                s = socket.socket(socket.AF_UNIX)
                s.connect(directory + "/sock")
                get_features(s)
                s.close()
            expect_eq(d.end()[0], 0)
            expect(os.path.exists(directory + "/sock"), "it removed a socket that is not its own")
    listener.close()


@test
def an_inherited_socket_that_no_front_end_can_use_is_refused():
    for s, why in ((socket.socket(socket.AF_UNIX), "neither listens nor is connected"),
                   (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), "is not a Unix stream socket"),
                   (socket.socket(socket.AF_INET), "is not a Unix stream socket")):
        r = run("device", "--port=null", f"--fd={s.fileno()}", pass_fds=[s.fileno()])
        expect_eq((r.returncode, r.stderr), (2, f"vwire device: --fd={s.fileno()} {why}\n"))
        s.close()


@test
def an_inherited_connection_ends_the_program_with_it():
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with Device(f"--fd={theirs.fileno()}", socket_path=False, pass_fds=[theirs.fileno()]) as d:
        theirs.close()
        get_features(ours)
        ours.close()
        expect_eq(d.process.wait(SLOW), 0)


# hostile K15
@test
def half_a_message_on_an_inherited_connection_does_not_delay_the_end():
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with Device(f"--fd={theirs.fileno()}", socket_path=False, pass_fds=[theirs.fileno()]) as d:
        get_features(ours)
        ours.sendall(b"\x01\x00\x00")
        d.stats()
        status, seconds = d.end()
        expect_eq(status, 0)
        expect(seconds < 0.5, f"took {seconds} s")
    ours.close()
    theirs.close()


@test
def the_service_manager_is_told():
    with tempfile.TemporaryDirectory(prefix="vw-test-cli-") as directory:
        for address, variable in ((directory + "/notify",) * 2, (f"\0vw-test-{os.getpid()}", f"@vw-test-{os.getpid()}")):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            s.bind(address)
            s.settimeout(SLOW)
            with Device(env={**os.environ, "NOTIFY_SOCKET": variable}):
                expect_eq(s.recv(100), b"READY=1")
            s.close()


# ---- control ----

def types(value):
    """The shape of JSON: names and types, with lists by their first member."""
    if isinstance(value, dict):
        return {k: types(v) for k, v in value.items()}
    if isinstance(value, list):
        return [types(value[0])] if value else []
    return type(value).__name__


@test
def stats_have_the_shape_of_the_contract():
    with Device("--queues=2", "--poll-us=5", "--tx-usecs=3", "--tx-frames=2") as d:
        stats = d.stats()
        expect_eq(stats["pid"], d.process.pid)
        expect_eq(stats["role"], "device")
        expect_eq(stats["state"], "listening")
        expect_eq(stats["port"], {"kind": "null", "name": "", "link": "up", "dropped": 0, "capture_lost": 0})
        kinds = [(q["index"], q["kind"], q["pair"]) for q in stats["queues"]]
        expect_eq(kinds[:4], [(0, "rx", 0), (1, "tx", 0), (2, "rx", 1), (3, "tx", 1)])
        q = stats["queues"][1]
        expect_eq(types(q["settings"]), {"poll_us": "int", "usecs": "int", "frames": "int", "adaptive": "bool"})
        shape = types(q)
        expect_eq({k: shape[k] for k in ("index", "kind", "pair", "ring", "size", "enabled", "broken")},
                  {"index": "int", "kind": "str", "pair": "int", "ring": "str", "size": "int", "enabled": "bool",
                   "broken": "NoneType"})
        for name in """packets bytes bursts kicks calls calls_suppressed calls_coalesced coalesce_frames coalesce_timer
                poll_hits poll_misses poll_ns no_buffers port_full""".split():
            expect_eq((name, shape["counters"].get(name)), (name, "int"))
        for name in """short too-long direction unmapped bad-gso bad-csum not-negotiated mtu bad-len bad-hdr missing-buffers
                no-buffers port-down port-error disabled""".split():
            expect_eq((name, shape["drops"].get(name)), (name, "int"))
        expect(isinstance(q["ring_state"], dict))


@test
def prometheus_text_is_valid():
    with Device("--queues=2") as d:
        r = d.ask("stats", "--prometheus")
        expect_eq((r.returncode, r.stderr), (0, ""))
        label = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*"'
        sample = re.compile(rf'(\w+)\{{{label}(?:,{label})*\}} [0-9.e+-]+')
        kind, seen, family = {}, set(), None
        for line in r.stdout.splitlines():
            if line.startswith("# HELP "):
                family = line.split()[2]
                expect(family not in kind, "two families", family)
            elif line.startswith("# TYPE "):
                _, _, name, what = line.split()
                expect_eq(name, family)
                kind[family] = what
                expect(what == ("counter" if family.endswith("_total") else "gauge"), line)
            else:
                m = sample.fullmatch(line)
                expect(m and m.group(1) == family and family in kind, line)
                key = line.rsplit(" ", 1)[0]
                expect(key not in seen, "twice:", key)
                seen.add(key)
        for name in "vwire_queue_packets_total", "vwire_queue_drops_total", "vwire_uptime_seconds", "vwire_port_link_up":
            expect(name in kind, name, "is missing")


@test
def watch_goes_on_until_sigint():
    with Device() as d:
        p = subprocess.Popen([VWIRE, "ctl", d.ctl, "stats", "--watch=100"], stdout=subprocess.PIPE, text=True)
        blocks = 0
        while blocks < 3:
            blocks += p.stdout.readline().startswith("queue ")
        p.send_signal(signal.SIGINT)
        expect_eq(p.wait(SLOW), 0)
        p.stdout.close()


@test
def watch_in_json_is_a_line_each_time():
    with Device() as d:
        p = subprocess.Popen([VWIRE, "ctl", d.ctl, "stats", "--json", "--watch=100"], stdout=subprocess.PIPE, text=True)
        uptimes = [json.loads(p.stdout.readline())["uptime_us"] for _ in range(3)]
        expect(uptimes[0] < uptimes[1] < uptimes[2], uptimes)
        p.send_signal(signal.SIGINT)
        expect_eq(p.wait(SLOW), 0)
        p.stdout.close()


@test
def on_a_terminal_watch_repaints_in_place():
    with Device() as d:
        main_end, end = os.openpty()
        p = subprocess.Popen([VWIRE, "ctl", d.ctl, "stats", "--watch=100"], stdout=end)
        text = b""
        while text.count(b"\x1b[H") < 3:
            text += os.read(main_end, 4096)
        p.send_signal(signal.SIGINT)
        expect_eq(p.wait(SLOW), 0)
        expect_eq(text.count(b"\x1b[2J"), 1)
        for fd in main_end, end:
            os.close(fd)


@test
def watch_ends_when_the_device_does():
    with Device() as d:
        p = subprocess.Popen([VWIRE, "ctl", d.ctl, "stats", "--watch=100"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        p.stdout.readline()
        d.end()
        expect_eq(p.wait(SLOW), 1)
        p.communicate()


@test
def settings_are_set_together_and_read_back():
    with Device("--queues=2") as d:
        expect_eq(d.ask("set", "tx-usecs=64", "tx-frames=32", "q3.tx-usecs=7", "adaptive=rx").returncode, 0)
        r = d.ask("get")
        for line in "tx-usecs=64", "tx-frames=32", "rx-usecs=0", "adaptive=rx":
            expect(line in r.stdout.splitlines(), line, "is not in", r.stdout)
        expect_eq(d.ask("get", "q3.tx-usecs", "q1.tx-usecs").stdout, "q3.tx-usecs=7\nq1.tx-usecs=64\n")
        r = d.ask("set", "poll-us=5", "q0.tx-usecs=1")
        expect_eq(r.returncode, 1)
        expect(r.stderr.startswith("vwire ctl: invalid-value: "), r.stderr)
        expect_eq(d.ask("get", "poll-us").stdout, "poll-us=0\n")
        r = d.ask("set", "q0.adaptive=tx")
        expect_eq((r.returncode, r.stderr), (1, "vwire ctl: invalid-value: queue 0 is of the other direction\n"))
        expect_eq(d.ask("get", "q0.adaptive").stdout, "q0.adaptive=rx\n")
        r = d.ask("get", "tx-mode")
        expect(r.returncode == 1 and r.stderr.startswith("vwire ctl: unknown-key: "), r.stderr)
        r = d.ask("set", "queues=2")
        expect(r.returncode == 1 and r.stderr.startswith("vwire ctl: unknown-key: "), r.stderr)


@test
def a_driver_leaves_adaptive_coalescing_to_the_device():
    def adaptive(end):
        return [q["settings"]["adaptive"] for q in end.stats()["queues"][:2]]

    with link(["--adaptive=both"], ["--port=null", "--adaptive=rx", "--tx-usecs=5", "--tx-frames=5"]) as (device, driver):
        wait_for(lambda: adaptive(device) == [True, False], "the command for tx")
        expect_eq(adaptive(driver), [True, False])
        expect_eq(driver.ask("get", "adaptive", "q0.adaptive", "q1.adaptive").stdout, "adaptive=rx\nq0.adaptive=rx\nq1.adaptive=off\n")
        r = driver.ask("set", "adaptive=both")
        expect(r.returncode == 1 and r.stderr.startswith("vwire ctl: wrong-state: q1: "), r.stderr)
        expect_eq(driver.ask("set", "rx-usecs=7").returncode, 0)
        expect_eq(adaptive(device) + adaptive(driver), [False] * 4)


@test
def link_state_is_the_operators():
    with Device() as d:
        for state in "down", "up":
            expect_eq(d.ask("link", state).returncode, 0)
            expect_eq(d.stats()["port"]["link"], state)


@test
def a_capture_is_a_pcap_file_made_by_the_client():
    with Device() as d:
        file = d.dir.name + "/capture"
        expect_eq(d.ask("pcap", file).returncode, 0)
        expect_eq(os.stat(file).st_mode & 0o777, 0o600)
        expect_eq(d.ask("pcap", "off").returncode, 0)
        expect(pathlib.Path(file).read_bytes()[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d"), "no pcap header")
        r = d.ask("pcap", d.dir.name + "/no/such/dir")
        expect(r.returncode == 1 and r.stderr.endswith("/no/such/dir: No such file or directory\n"), r.stderr)


@test
def a_worker_whose_cpu_is_not_there_says_so_and_runs():
    if os.sysconf("SC_NPROCESSORS_CONF") > 1023:
        raise Skip("this machine has a CPU 1023")
    with Device("--cpus=1023") as d:
        d.said("warn device: a worker runs unpinned worker=0 cpu=1023 errno=22")
        expect_eq(len(d.stats()["queues"]), 3)
        with End("driver", d.dir.name, "--port=null", f"--socket-path={d.path}", "--cpus=1023") as driver:
            driver.said("warn driver: a worker runs unpinned worker=0 cpu=1023 errno=22")


@test
def nothing_is_opened_where_the_log_goes():
    with tempfile.TemporaryDirectory(prefix="vw-test-cli-") as directory:
        words = [VWIRE, "device", "--port=null", f"--socket-path={directory}/sock", f"--ctl={directory}/ctl"]
        process = subprocess.Popen(["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words])
        try:
            wait_for(lambda: run("ctl", f"{directory}/ctl", "stats").returncode == 0, "the control socket")
            for fd in range(3):
                expect_eq(os.readlink(f"/proc/{process.pid}/fd/{fd}"), "/dev/null")
        finally:
            process.terminate()
            expect_eq(process.wait(SLOW), 0)


@test
def an_option_captures_from_the_start():
    with tempfile.TemporaryDirectory(prefix="vw-test-cli-") as directory, Device(f"--pcap={directory}/capture") as d:
        expect_eq(d.end()[0], 0)
        expect_eq(os.stat(directory + "/capture").st_size, 24)
    r = run("device", "--port=null", "--socket-path=/tmp/vw-test-never", "--pcap=/no/such/dir")
    expect_eq((r.returncode, r.stderr), (1, "error device: cannot write the capture /no/such/dir: No such file or directory\n"))


@test
def why_and_features_are_for_people():
    with Device() as d:
        expect_eq(len(d.ask("why").stdout.splitlines()), len(d.stats()["queues"]))
        expect_eq(len(d.ask("why", "q1").stdout.splitlines()), 1)
        expect(re.search(r"^  32  version_1 +-$", d.ask("features").stdout, re.M))
        expect_eq(d.ask("why", "77").returncode, 1)


@test
def stop_returns_when_it_is_done():
    with Device() as d:
        expect_eq(d.ask("stop").returncode, 0)
        expect_eq(d.process.wait(SLOW), 0)
        expect(not os.path.exists(d.ctl), "the control socket is still there")


@test
def a_missing_socket_says_what_to_do():
    r = run("ctl", "/tmp/vw-test-no-such-socket", "stats")
    expect_eq((r.returncode, r.stdout), (1, ""))
    expect_eq(r.stderr, "vwire ctl: /tmp/vw-test-no-such-socket: there is no such socket: is it the --ctl=PATH of a running "
                        "device or driver?\n")
    with Device() as d:
        d.process.kill()
        d.process.wait()
        r = d.ask("stats")
        expect_eq((r.returncode, r.stderr), (1, f"vwire ctl: {d.ctl}: nobody listens there any more\n"))
        r = run("ctl", d.log, "stats")
        expect(r.returncode == 1 and r.stderr.count("\n") == 1, r.stderr)


@test
def raw_json_over_the_socket_works_too():
    with Device() as d:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(SLOW)
        s.connect(d.ctl)
        s.sendall(b'{"id":1,"command":"set","arguments":{"tx-usecs":64,"tx-frames":64}}\n{"id":"two","command":"nope"}\n')
        answer = b""
        while answer.count(b"\n") < 2:
            answer += s.recv(4096)
        expect_eq(answer, b'{"id":1,"return":{}}\n'
                          b'{"id":"two","error":{"class":"unknown-command","message":"there is no command nope"}}\n')
        s.close()


if __name__ == "__main__":
    main(*sys.argv[3:])
