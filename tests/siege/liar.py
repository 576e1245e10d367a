"""A front end that lies to a device in all the ways at once: bytes, messages, rings."""
import contextlib
import mmap
import os
import random
import socket
import struct
import time

SIZE, RING = 1 << 20, 0x2000  # bytes of memory, between two rings
ENTRIES = 64


class Liar:
    def __init__(self, path, rng: random.Random):
        self.path, self.rng = path, rng

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(20)
        s.connect(self.path)
        return s

    def say(self, s, request, payload=b"", fds=(), reply=0):
        socket.send_fds(s, [struct.pack("=III", request, 1, len(payload)) + payload], list(fds))
        answer = b""
        while reply and len(answer) < 12 + reply:
            part = s.recv(12 + reply - len(answer))
            if not part:
                raise ConnectionError("the device closed")
            answer += part
        return answer[12:]

    def alive(self):
        """An honest question is answered."""
        with self.connect() as s:
            return len(self.say(s, 1, reply=8)) == 8

    def bytes_(self):
        with self.connect() as s, contextlib.suppress(OSError):
            for _ in range(self.rng.randrange(1, 20)):
                s.sendall(self.rng.randbytes(self.rng.randrange(1, 400)))

    def messages(self):
        """Well framed, and otherwise anything."""
        fds = [os.eventfd(0), os.memfd_create("liar"), os.open("/dev/null", os.O_RDWR)]
        os.ftruncate(fds[1], self.rng.choice([0, 4096, SIZE]))
        with self.connect() as s, contextlib.suppress(OSError):
            self.say(s, 3)
            for _ in range(self.rng.randrange(5, 60)):
                payload = b"".join(struct.pack("=Q", self.rng.choice([0, 1, 2, 8, 4096, 1 << 30, 1 << 63, (1 << 64) - 1]))
                                   for _ in range(self.rng.randrange(0, 9)))
                self.say(s, self.rng.randrange(0, 45), payload[self.rng.choice([0, 0, 4]):],
                         self.rng.choices(fds, k=self.rng.choice([0, 0, 1, 1, 2, 8])))
        for fd in fds:
            os.close(fd)

    def rings(self):
        """Set up as it should be; then noise in every word of the rings, and kicks, while the device runs."""
        memory = os.memfd_create("liar")
        os.ftruncate(memory, SIZE)
        bells = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(4)]
        view = mmap.mmap(memory, SIZE)
        with self.connect() as s, contextlib.suppress(OSError):
            self.say(s, 3)
            offered = struct.unpack("=Q", self.say(s, 1, reply=8))[0]
            self.say(s, 2, struct.pack("=Q", offered & ~(1 << 30) & ~(1 << 34)))
            self.say(s, 5, struct.pack("=IIQQQQ", 1, 0, 0, SIZE, 0, 0), [memory])
            for q in 0, 1:
                at = q * RING
                self.say(s, 8, struct.pack("=II", q, ENTRIES))
                self.say(s, 10, struct.pack("=II", q, 0))
                self.say(s, 9, struct.pack("=IIQQQQ", q, 0, at, at + 0x800, at + 0x400, 0))
                self.say(s, 13, struct.pack("=Q", q), [bells[q]])
                self.say(s, 12, struct.pack("=Q", q), [bells[2 + q]])
                for i in range(ENTRIES):
                    struct.pack_into("<QIHH", view, at + 16 * i, 0x10000 + 2048 * i, 2048, 0 if q else 2, 0)
                    struct.pack_into("<H", view, at + 0x404 + 2 * i, i)
            deadline = time.monotonic() + 0.03
            while time.monotonic() < deadline:
                q = self.rng.randrange(2)
                for _ in range(self.rng.randrange(1, 8)):
                    self.lie(view, q * RING)
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_write(bells[2 + q], 1)
                time.sleep(0.0005)
        view.close()
        for fd in [memory, *bells]:
            os.close(fd)

    def lie(self, view, at):
        rng = self.rng
        what = rng.randrange(5)
        if what == 0:  # a descriptor
            struct.pack_into("<QIHH", view, at + 16 * rng.randrange(ENTRIES), rng.choice([0, 0x10000, SIZE - 1, rng.getrandbits(64)]),
                             rng.choice([0, 1, 12, 2048, 0xFFFFFFFF]), rng.randrange(8), rng.choice([0, 1, ENTRIES, 0xFFFF]))
        elif what == 1:  # an avail entry
            struct.pack_into("<H", view, at + 0x404 + 2 * rng.randrange(ENTRIES), rng.choice([0, 1, 63, ENTRIES, 0xFFFF]))
        elif what == 2:  # offered: mostly a little more than before
            index = struct.unpack_from("<H", view, at + 0x402)[0]
            struct.pack_into("<H", view, at + 0x402, (index + rng.choice([1, 1, 1, 1, 2, 60, 1000])) & 0xFFFF)
        elif what == 3:  # the device's own words
            struct.pack_into("<H", view, at + 0x800 + 2 * rng.randrange(ENTRIES), rng.getrandbits(16))
        else:
            view[at + rng.randrange(RING)] = rng.getrandbits(8)
