#!/usr/bin/env python3
"""The load generators against servers written here, and the server against clients written here, over loopback:
test_traffic.py TRAFFIC_TOOL.  What each side counts must be what the other has seen."""
import socket
import struct
import subprocess
import sys
import threading
import time

TOOL = sys.argv[1]
MAGIC = 0x76776265
ECHO, SINK, SOURCE, UDP_SOURCE, COUNT = range(5)


def free_port():
    """A port with the next one free too, TCP and UDP."""
    while True:
        with socket.socket() as a, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as b, \
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as c:
            a.bind(("127.0.0.1", 0))
            port = a.getsockname()[1]
            try:
                b.bind(("127.0.0.1", port))
                c.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                pass


class Server:
    """An independent server: one thread a connection, and everything is counted.  `delay` seconds before an answer; no more than
    `limit` answers of a kind to anyone."""

    def __init__(self, delay=0.0, lose_every=0, limit=None):
        self.port, self.delay, self.lose_every, self.limit = free_port(), delay, lose_every, limit
        self.hellos, self.answered, self.received, self.datagrams, self.lost = [], 0, 0, 0, 0
        self.lock = threading.Lock()
        self.tcp = socket.create_server(("127.0.0.1", self.port), backlog=512)
        self.udp = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for i, s in enumerate(self.udp):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            s.bind(("127.0.0.1", self.port + i))
        for target in self.accept, self.udp_echo, self.udp_sink:
            threading.Thread(target=target, daemon=True).start()

    def accept(self):
        while True:
            threading.Thread(target=self.serve, args=(self.tcp.accept()[0],), daemon=True).start()

    def take(self, s, n):
        data = b""
        while len(data) < n:
            part = s.recv(n - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def serve(self, s):
        try:
            hello = struct.unpack(">5I", self.take(s, 20))
            with self.lock:
                self.hellos.append(hello)
            _, mode, _, request, response = hello
            answers = 0
            while mode == ECHO:
                self.take(s, request)
                answers += 1
                if self.limit and answers > self.limit:
                    s.recv(1)  # until it leaves
                    return
                time.sleep(self.delay)
                s.sendall(b"a" * response)
                with self.lock:
                    self.answered += 1
            while mode == SINK:
                data = s.recv(1 << 16)
                if not data:
                    return
                with self.lock:
                    self.received += len(data)
            while mode == SOURCE:
                s.sendall(b"s" * request)
                with self.lock:
                    self.received += request
            while mode == COUNT:
                self.take(s, 1)
                s.sendall(struct.pack(">2Q", self.datagrams, self.received))
            if mode == UDP_SOURCE:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
                    for _ in range(100):  # exactly so many
                        u.sendto(b"u" * request, ("127.0.0.1", response))
                        time.sleep(0.001)
                    s.recv(1)
        except (EOFError, OSError):
            pass

    def udp_echo(self):
        n = 0
        while True:
            data, peer = self.udp[0].recvfrom(1 << 16)
            n += 1
            if self.limit and self.answered == self.limit:
                continue
            if self.lose_every and n % self.lose_every == 0:
                self.lost += 1
                continue
            self.udp[0].sendto(data, peer)
            self.answered += 1

    def udp_sink(self):
        while True:
            data = self.udp[1].recv(1 << 16)
            self.datagrams += 1
            self.received += len(data)


def load(kind, size, sessions, threads, port, ms):
    out = subprocess.run([TOOL, "load", kind, *map(str, (size, sessions, threads, port, ms))], capture_output=True,
                         text=True, check=True).stdout
    return {k: float(v) for k, v in (word.split("=") for word in out.split())}


def settled(value):
    """What a counter of the server comes to rest at, also on a busy machine."""
    before, since = None, 0
    while since < 5:
        now = value()
        since = since + 1 if now == before else 0
        before = now
        time.sleep(0.05)
    return before


def test_rr_counts_what_the_server_answered():
    for size, sessions, threads in (1, 1, 1), (64, 20, 1), (1000, 7, 3), (65536, 2, 2):
        server = Server(limit=100)
        r = load("tcp_rr", size, sessions, threads, server.port, 3000)
        assert r["all_transactions"] == server.answered == 100 * sessions, (r, server.answered)
        assert settled(lambda: len(server.hellos)) == sessions
        assert {h[:2] + h[3:] for h in server.hellos} == {(MAGIC, ECHO, size, size)}
        assert len({h[2] for h in server.hellos}) == min(threads, sessions)


def test_rr_measures_the_time_that_the_server_takes():
    server = Server(delay=0.010)
    r = load("tcp_rr", 10, 5, 1, server.port, 500)
    assert 10e6 <= r["p50_ns"] < 100e6, r
    assert r["transactions"] < 5 * 510e6 / 10e6, r  # five sessions of 10 ms each, at best


def test_udp_rr_asks_again_what_was_lost():
    server = Server(lose_every=50, limit=400)
    r = load("udp_rr", 64, 4, 2, server.port, 4000)
    assert r["all_transactions"] == server.answered == 400 and r["retries"] >= 8, (r, server.answered)


def test_tcp_rx_counts_what_the_receiver_has():
    server = Server()
    r = load("tcp_rx", 1000, 3, 1, server.port, 400)
    received = settled(lambda: server.received)
    assert r["bytes"] > 0 and received >= r["bytes"]
    assert received - r["bytes"] < 64 << 20, (received, r)  # the socket buffers after the last mark


def test_tcp_tx_counts_what_came():
    server = Server()
    r = load("tcp_tx", 4096, 2, 1, server.port, 400)
    assert 0 < r["bytes"] <= settled(lambda: server.received)
    assert {h[1] for h in server.hellos} == {SOURCE}


def test_udp_tx_counts_each_datagram():
    server = Server()
    r = load("udp_tx", 200, 1, 1, server.port, 3000)
    assert r["all_packets"] == 100 and r["packets"] > 0, r
    assert r["bytes"] == 200 * r["packets"]


def test_udp_rx_asks_the_server():
    server = Server()
    r = load("udp_rx", 300, 1, 1, server.port, 300)
    assert 0 < r["packets"] <= server.datagrams
    assert r["bytes"] == 300 * r["packets"]


def test_a_server_that_goes_away_is_told():
    class Leaver(Server):
        def serve(self, s):
            self.take(s, 20)
            s.close()

    r = subprocess.run([TOOL, "load", "tcp_rr", "1", "1", "1", str(Leaver().port), "200"], capture_output=True)
    assert r.returncode == 1, r


class Served:
    """Our server as a process."""

    def __enter__(self):
        self.port = free_port()
        self.process = subprocess.Popen([TOOL, "server", str(self.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(5) == 0

    def connect(self, mode, request, response=0, thread=0, magic=MAGIC):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        s.sendall(struct.pack(">5I", magic, mode, thread, request, response))
        return s


def test_server_answers_by_size():
    with Served() as served:
        s = served.connect(ECHO, 3, 7)
        for n in 1, 2, 3, 50:
            s.sendall(b"abc" * n)
            data = b""
            while len(data) < 7 * n:
                data += s.recv(1000)
            assert len(data) == 7 * n
        s.settimeout(0.05)
        s.sendall(b"ab")
        try:
            raise AssertionError(s.recv(1))
        except TimeoutError:
            pass


def test_server_answers_what_came_in_one_piece():
    for n in 1, 63, 64, 65, 128, 1000:  # whatever it takes in a turn
        with Served() as served:
            s = served.connect(ECHO, 2, 2)
            s.sendall(b"ab" * n)
            left = 2 * n
            while left:
                left -= len(s.recv(1 << 16))


def test_server_goes_on_when_a_slow_client_takes_its_answers():
    with Served() as served:
        s = served.connect(ECHO, 1, 65536)
        s.sendall(b"x" * 500)
        time.sleep(0.1)
        left = 500 * 65536
        while left:
            left -= len(s.recv(1 << 20))


def test_server_sends_and_stops_when_left():
    with Served() as served:
        for thread in range(6):
            with served.connect(SOURCE, 1000, thread=thread) as s:
                assert len(s.recv(1 << 20)) > 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
            u.bind(("127.0.0.1", 0))
            u.settimeout(5)
            with served.connect(UDP_SOURCE, 321, u.getsockname()[1]):
                assert len(u.recv(1000)) == 321
            time.sleep(0.1)
            u.settimeout(0.05)
            try:
                while u.recv(1000):
                    pass
            except TimeoutError:
                pass


def test_server_counts_datagrams():
    with Served() as served, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
        s = served.connect(COUNT, 1)
        for n in range(1, 101):
            u.sendto(b"y" * n, ("127.0.0.1", served.port + 1))
        time.sleep(0.1)
        s.sendall(b"?")
        assert struct.unpack(">2Q", s.recv(16)) == (100, 5050)
        u.sendto(b"echo", ("127.0.0.1", served.port))
        assert u.recv(10) == b"echo"


def test_server_hangs_up_on_nonsense():
    with Served() as served:
        for bad in dict(mode=ECHO, request=0), dict(mode=9, request=1), dict(mode=SINK, request=1 << 20), \
                dict(mode=ECHO, request=1, magic=1), dict(mode=ECHO, request=1, response=1 << 30):
            assert served.connect(**bad).recv(1) == b"", bad
        assert len(served.connect(SOURCE, 1).recv(1)) == 1  # and still serves


def test_both_sides_of_ours_agree():
    with Served() as served:
        for kind, sessions in ("tcp_rr", 200), ("udp_rr", 10), ("tcp_tx", 4), ("tcp_rx", 4), ("udp_tx", 1), ("udp_rx", 1):
            r = load(kind, 64, sessions, 2, served.port, 200)
            assert r["bytes"] + r["transactions"] > 0, (kind, r)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name, flush=True)
