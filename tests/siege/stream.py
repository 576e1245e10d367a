"""Numbered frames both ways through two TAPs, by a process of its own: what arrives is whole, in order and never twice.

Every sixteenth frame is a TCP segment of 20 KB that the kernel hands over uncut, which the numbers do not count.  What is lost is not
this process's business: the kernel's counters tell.
"""
import multiprocessing
import select
import struct
import time

from lab import Violation

PROTOCOL = 0x88B5
PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 15, 23
BURST, PAUSE = 16, 0.004  # frames each way at once; seconds between two bursts


def gso_frame():
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20040, 1, 0, 64, 6, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    total = sum(struct.unpack("!10H", ip))
    ip = ip[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + ip[12:]
    tcp = struct.pack("!HHIIBBHHH", 1, 2, 3, 4, 0x50, 0x10, 1000, 0, 0)
    hdr = struct.pack("=BBHHHH", 1, 1, 54, 1400, 34, 16)
    return hdr + bytes([2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8]) + b"\x08\x00" + ip + tcp + bytes(20000)


GSO = gso_frame()
HEAD = bytes(10) + bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]) + struct.pack("!H", PROTOCOL)


class Way:
    """One direction: from a TAP to another."""

    def __init__(self, source, sink):
        self.out = source.socket(0, (PACKET_VNET_HDR, 1))
        self.into = sink.socket(PROTOCOL, (PACKET_IGNORE_OUTGOING, 1))
        self.next, self.sent, self.seen, self.last = 0, 0, 0, -1

    def send(self, n):
        for _ in range(n):
            self.next += 1
            frame = GSO if self.next % 16 == 0 else HEAD + struct.pack("=Q", self.next) * (6 + self.next % 181)
            try:
                self.out.send(frame)
                self.sent += 1
            except OSError:
                pass  # the TAP is down, or its queue full: then it was not sent

    def receive(self):
        while True:
            try:
                frame = self.into.recv(2048)
            except OSError:
                return
            number = struct.unpack_from("=Q", frame, 14)[0]
            if number <= self.last:
                raise Violation(f"frame {number} came after frame {self.last}")
            if frame[14:] != struct.pack("=Q", number) * (6 + number % 181):
                raise Violation(f"frame {number} is not what was sent")
            self.last = number
            self.seen += 1


def run(pipe, first, second):
    ways, paused, due = [Way(first, second), Way(second, first)], True, 0
    poll = select.poll()
    for fd in [pipe.fileno()] + [w.into.fileno() for w in ways]:
        poll.register(fd, select.POLLIN)
    while True:
        poll.poll(1000 if paused else max(0, (due - time.monotonic()) * 1000))
        try:
            for w in ways:
                w.receive()
        except Violation as v:
            pipe.send(str(v))
            return
        if pipe.poll():
            word = pipe.recv()
            if word == "end":
                return
            paused = word == "pause"
            if isinstance(word, int):  # a flood
                for w in ways:
                    w.send(word)
            pipe.send([(w.sent, w.seen) for w in ways])
        if not paused and time.monotonic() >= due:
            due = time.monotonic() + PAUSE
            for w in ways:
                w.send(BURST)


class Stream:
    def __init__(self, first, second):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=run, args=(theirs, first, second), daemon=True)
        self.process.start()
        theirs.close()

    def say(self, word):
        """[(sent, seen) for each way]; "go", "pause", or a number of frames to send at once."""
        self.pipe.send(word)
        if not self.pipe.poll(20):
            raise Violation("the stream does not answer")
        answer = self.pipe.recv()
        if isinstance(answer, str):
            raise Violation(answer)
        return answer

    def close(self):
        if self.process.is_alive():
            self.pipe.send("end")
        self.process.join()
        self.pipe.close()
