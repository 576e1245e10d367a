#!/usr/bin/env python3
"""A driver that was written from the specifications alone against `vwire device --port=loop`: whatever an honest driver is free to
choose is drawn by lot, and what it sends comes back whole, in order and counted.  Prints TAP.

usage: test_stranger.py BUILD/vwire [PATTERN]; STRANGER_SEED=N and STRANGER_ROUNDS=N for more of the kind.
"""
import os
import random
import struct
import sys

from common import Device, expect, expect_eq, main, test, wait_for
from frontend import (ADD_MEM_REG, BITS, CONFIG, GET_MAX_MEM_SLOTS, MEM_SLOTS, MQ, PAGE, REM_MEM_REG, REPLY_ACK, Frontend, Memory, Ring,
                      sleep_for_calls)

SEED = int(os.environ.get("STRANGER_SEED", "1"))
ROUNDS = int(os.environ.get("STRANGER_ROUNDS", "60"))
US, LOOPED = bytes([2, 0, 0, 0, 0, 1]), bytes([2, 0, 0, 0, 0, 2])
SLOTS = 48  # buffers of a ring at most
CTRL = 64  # entries of a control queue


def bit(name):
    return 1 << BITS[name]


def draw_features(rng):
    chosen = sum(bit(name) for name in ("mrg_rxbuf", "indirect_desc", "event_idx", "status", "csum", "guest_csum", "mac") if rng.random() < 0.5)
    if rng.random() < 0.7:
        chosen |= bit("version_1")
    if rng.random() < 0.7:
        chosen |= bit("protocol_features")
    if rng.random() < 0.5:
        chosen |= bit("ctrl_vq") | (bit("ctrl_rx") if rng.random() < 0.5 else 0)
        if chosen & bit("protocol_features") and rng.random() < 0.7:
            chosen |= bit("mq")
    return chosen


def frame(number, size):
    return (LOOPED + US + b"\x88\xb5" + struct.pack("<I", number) * (size // 4))[:size]


def cut(rng, gpa, size, most):
    """A piece of memory as at most so many descriptors."""
    borders = sorted(rng.sample(range(1, size), min(most, size, rng.choice([1, 1, 2, 3, 5])) - 1)) if size > 1 else []
    ends = [*borders, size]
    return [(gpa + a, b - a) for a, b in zip([0, *borders], ends)]


class Pair:
    """Both rings of a pair, and what is on its way through them."""

    def __init__(self, rng, mem, number, sizes, features):
        self.rng, self.mem, self.features = rng, mem, features
        self.hdr = 12 if features & (bit("version_1") | bit("mrg_rxbuf")) else 10
        self.rx, self.tx = (Ring(mem, 2 * number + i, size, features, base) for i, (size, base) in enumerate(sizes))
        self.mergeable = bool(features & bit("mrg_rxbuf"))
        self.longest = rng.choice([60, 200, 1514, 1514, 4000])
        least = self.hdr if self.mergeable else self.hdr + self.longest
        self.buf = max(least, -(-(self.hdr + self.longest) // min(self.rx.size, SLOTS))) + rng.choice([0, 1, 64, 500])
        if self.mergeable:
            self.buf = max(self.buf, rng.choice([0, 128, 1536]))
        # the ring is to hold the longest frame, however its buffers are cut
        self.most = max(n for n in range(1, 6) if n == 1 or self.rx.size // n * self.buf >= self.hdr + self.longest)
        self.slots = {r: [mem.alloc(n, 1, across=True) for _ in range(min(r.size, SLOTS))]
                      for r, n in ((self.rx, self.buf), (self.tx, self.hdr + self.longest))}
        self.tables = {r: [mem.alloc(16 * 8, 16, across=True) for _ in slots] for r, slots in self.slots.items()}
        self.idle = {r: list(range(len(slots))) for r, slots in self.slots.items()}
        self.numbers, self.sent, self.part = [], 0, None

    def offer(self, ring, pieces, slot):
        table = self.tables[ring][slot] if self.features & bit("indirect_desc") and self.rng.random() < 0.5 else None
        if ring.add(pieces, slot, table):
            self.idle[ring].remove(slot)
            return True
        return False

    def post(self):
        """All receive buffers that there are."""
        for slot in list(self.idle[self.rx]):
            gpa = self.slots[self.rx][slot]
            pieces = [(*p, True) for p in cut(self.rng, gpa, self.buf, self.most)]
            if not self.offer(self.rx, pieces, slot) and not self.offer(self.rx, [(gpa, self.buf, True)], slot):
                break
        self.rx.publish()

    def send(self, most):
        n = 0
        while n < most and self.idle[self.tx]:
            slot = self.rng.choice(self.idle[self.tx])
            gpa, size = self.slots[self.tx][slot], self.rng.randint(14, self.longest)
            self.mem.write(gpa, bytes(self.hdr) + frame(self.sent, size))
            pieces = [(*p, False) for p in cut(self.rng, gpa, self.hdr + size, min(5, self.tx.size))]
            if not self.offer(self.tx, pieces, slot) and not self.offer(self.tx, [(gpa, self.hdr + size, False)], slot):
                break
            self.numbers.append((self.sent, size))
            self.sent += 1
            n += 1
        if n:
            self.tx.publish()
        return n

    def collect(self):
        for slot, size in self.tx.reap():
            expect_eq(size, 0)
            self.idle[self.tx].append(slot)
        for slot, size in self.rx.reap():
            self.arrived(self.mem.read(self.slots[self.rx][slot], size))
            self.idle[self.rx].append(slot)

    def arrived(self, data):
        """One used buffer: a packet, or one of several that make it."""
        if self.part is None:
            hdr, data = data[:self.hdr], data[self.hdr:]
            expect_eq(len(hdr), self.hdr)
            expect_eq(hdr[:10], bytes(10))
            self.left = struct.unpack("<H", hdr[10:])[0] if self.hdr == 12 and self.mergeable else 1
            if self.hdr == 12 and not self.mergeable:
                expect_eq(hdr[10:], b"\1\0")
            self.part, self.room = b"", self.buf - self.hdr
        else:
            self.room = self.buf
        self.part += data
        self.left -= 1
        expect(not self.left or len(data) == self.room, "a buffer that is not the last is not full")
        if not self.left:
            number, size = self.numbers.pop(0)
            expect_eq(self.part, US + LOOPED + frame(number, size)[12:])
            self.part = None


class Guest:
    """A session with everything drawn by lot."""

    def __init__(self, rng, path, max_pairs):
        self.rng, self.fe = rng, Frontend(path)
        features = draw_features(rng)
        offered = self.fe.hello(features, rng.choice([REPLY_ACK, 0]) | MQ | CONFIG | rng.choice([MEM_SLOTS, 0]))
        self.features = features & offered
        expect_eq(self.features, features)
        mq = self.features & bit("mq") and self.fe.protocol & MQ
        numbers = sorted({0, *rng.sample(range(max_pairs), rng.randint(1, max_pairs))}) if mq else [0]
        self.told = numbers[-1] + 1
        slots = self.features & bit("protocol_features") and self.fe.protocol & MEM_SLOTS
        self.pages = [max(1, rng.choice([1, 2, 16, 100])) for _ in range(rng.choice([0, 1, 3, 7] if not slots else [1, 7, 20, 60]))] + [4096]
        rng.shuffle(self.pages)
        self.mem = Memory(rng, [PAGE * n for n in self.pages])
        self.pairs = [Pair(rng, self.mem, n, [self.draw_ring(), self.draw_ring()], self.features) for n in numbers]
        self.ctrl = Ring(self.mem, 2 * max_pairs if self.features & bit("mq") else 2, CTRL, self.features) if self.features & bit("ctrl_vq") else None
        self.command_at = self.mem.alloc(64)

    def draw_ring(self):
        """Its size, and where its indices begin."""
        return 1 << self.rng.choice([0, 1, 2, 3, 5, 8, 8, 10, 15]), self.rng.choice([0, 0, 1, 65530, 65535])

    def rings(self):
        return [r for p in self.pairs for r in (p.rx, p.tx)]

    def start(self):
        regions = list(self.mem.regions)
        self.rng.shuffle(regions)
        self.fe.table(regions) if len(regions) <= 8 else [self.fe.add_region(r) for r in regions]
        rings = self.rings() + ([self.ctrl] if self.ctrl else [])
        self.rng.shuffle(rings)
        enable = bool(self.features & bit("protocol_features"))
        for r in rings:
            self.fe.ring(self.rng, r, r.avail_idx, enable)
        if self.told > 1:
            expect_eq(self.command(4, 0, struct.pack("<H", self.told)), 0)

    def command(self, group, number, data):
        """A control command; its answer."""
        words = bytes([group, number]) + data
        self.mem.write(self.command_at, words + b"\xff")
        self.ctrl.add([(self.command_at, len(words), False), (self.command_at + len(words), 1, True)], None)
        self.ctrl.publish()
        while not (done := self.ctrl.reap()):
            expect(sleep_for_calls([self.ctrl]), "no answer to a control command")
        expect_eq(done, [(None, 1)])
        return self.mem.read(self.command_at + len(words), 1)[0]

    def exchange(self, n):
        """n frames through each pair, with interrupts alone to wait by."""
        until = {p: p.sent + n for p in self.pairs}
        for p in self.pairs:
            p.post()
        while any(p.sent < until[p] or p.numbers for p in self.pairs):
            for p in self.pairs:
                # a loop holds a frame until there is room: no more may be out than can come back
                p.send(min(until[p] - p.sent, self.rng.choice([1, 3, 16, 64])))
                p.collect()
                p.post()
            if all(not p.idle[p.tx] or p.sent == until[p] for p in self.pairs) and any(p.numbers for p in self.pairs):
                expect(sleep_for_calls(self.rings()), "an interrupt was lost", [(p.sent, len(p.numbers)) for p in self.pairs])
        wait_for(lambda: [p.collect() for p in self.pairs] and not any(p.tx.out for p in self.pairs), "the last completions")

    def stop(self):
        """The rings stop where the driver knows that they are."""
        for p in self.pairs:
            expect_eq(self.fe.stop(p.tx.index), p.tx.avail_idx)
            expect_eq(self.fe.stop(p.rx.index), p.rx.last_used)
            p.collect()

    def close(self):
        self.fe.close()
        for r in self.rings() + ([self.ctrl] if self.ctrl else []):
            r.close()
        self.mem.close()


def packets(device):
    return {q["index"]: (q["counters"]["packets"], sum(q["drops"].values())) for q in device.stats()["queues"]}


# hostile B25, C02
@test
def whatever_a_driver_chooses_its_frames_come_back():
    with Device("--port=loop", "--queues=3") as device:
        for number in range(ROUNDS):
            try:
                one_session(random.Random(SEED * 1000 + number), device)
            except Exception as e:
                raise AssertionError(f"with STRANGER_SEED={SEED}, round {number}: {device.lines()[-500:]}") from e


def one_session(rng, device):
    before = packets(device)
    guest = Guest(rng, device.path, 3)
    guest.start()
    for _ in range(rng.choice([1, 2])):
        guest.exchange(rng.choice([1, 40, 150]))
        guest.stop()
        for r in guest.rings():
            # again from where it stopped, or from the beginning
            r.out.clear()
            r.restart(rng.choice([r.avail_idx, 0]))
        for p in guest.pairs:
            p.idle = {r: list(range(len(slots))) for r, slots in p.slots.items()}
            for r in (p.rx, p.tx):
                guest.fe.ring(rng, r, r.avail_idx, bool(guest.features & bit("protocol_features")))
    after = packets(device)
    for p in guest.pairs:
        for r in p.rx, p.tx:
            done, dropped = before.get(r.index, (0, 0))
            expect_eq((r.index, *after[r.index]), (r.index, done + p.sent, dropped))
    guest.close()
    wait_for(lambda: device.stats()["state"] == "listening", "the guest to be gone")


# hostile B16
@test
def as_many_regions_of_memory_as_there_may_be_are_served():
    rng = random.Random(SEED)
    with Device("--port=loop") as device:
        fe = Frontend(device.path)
        features = bit("version_1") | bit("protocol_features") | bit("mrg_rxbuf")
        fe.hello(features, REPLY_ACK | MEM_SLOTS)
        slots, = struct.unpack("<Q", fe.ask(GET_MAX_MEM_SLOTS))
        expect_eq(slots, 509)
        mem = Memory(rng, [PAGE] * (slots + 1))
        regions, surplus = mem.regions[:-1], mem.regions[-1]
        rng.shuffle(regions)
        for r in regions:
            fe.add_region(r)
        expect(fe.tell(ADD_MEM_REG, bytes(8) + surplus.words(), [surplus.fd]) != 0, "there is no limit")
        pair = Pair(rng, mem, 0, [(8, 0), (8, 0)], features)
        for ring in pair.rx, pair.tx:
            fe.ring(rng, ring)
        pair.post()
        expect_eq(pair.send(1), 1)
        wait_for(lambda: pair.collect() or not pair.numbers, "the frame")
        for r in regions:
            expect_eq(fe.tell(REM_MEM_REG, bytes(8) + r.words()), 0)
        fe.close()


if __name__ == "__main__":
    main(*sys.argv[2:])
