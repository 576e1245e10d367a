"""A vhost-user front end and a virtio-net driver for a split ring, written from the specifications alone: it shares no line with what
it tests.  Everything that an honest driver is free to choose is a parameter or drawn from a random generator.
"""
import array
import mmap
import os
import select
import socket
import struct
import threading

GET_FEATURES, SET_FEATURES, SET_OWNER, RESET_OWNER, SET_MEM_TABLE = 1, 2, 3, 4, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE, SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR = range(8, 15)
GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, GET_QUEUE_NUM, SET_VRING_ENABLE = 15, 16, 17, 18
GET_CONFIG, RESET_DEVICE, GET_MAX_MEM_SLOTS, ADD_MEM_REG, REM_MEM_REG, SET_STATUS, GET_STATUS = 24, 34, 36, 37, 38, 39, 40

BITS = dict(csum=0, guest_csum=1, ctrl_guest_offloads=2, mac=5, mrg_rxbuf=15, status=16, ctrl_vq=17, ctrl_rx=18, ctrl_vlan=19, mq=22,
            indirect_desc=28, event_idx=29, protocol_features=30, version_1=32)
REPLY_ACK, MQ, CONFIG, MEM_SLOTS = 1 << 3, 1 << 0, 1 << 9, 1 << 15

NEXT, WRITE, INDIRECT = 1, 2, 4
PAGE = 4096
PATIENCE = 10  # seconds

_fence = threading.Lock()


def fence():
    """Taking a lock is a full barrier between what we write and what we read next."""
    with _fence:
        pass


class Region:
    """A piece of guest memory: a file of its own, mapped from `offset` on."""

    def __init__(self, gpa, size, uva, offset):
        self.gpa, self.size, self.uva, self.offset = gpa, size, uva, offset
        self.fd = os.memfd_create("guest")
        os.ftruncate(self.fd, offset + size)
        self.map = mmap.mmap(self.fd, offset + size)

    def words(self):
        return struct.pack("<QQQQ", self.gpa, self.size, self.uva, self.offset)


class Memory:
    """Guest memory in regions, each behind the other without a hole; an allocation may lie across a border."""

    def __init__(self, rng, sizes, base=0x40000000):
        self.regions, self.next = [], base
        for i, size in enumerate(sizes):
            self.regions.append(Region(base, size, 0x7000_0000_0000 - (i << 36) + base, rng.choice([0, PAGE, 5 * PAGE])))
            base += size
        self.end = base

    def alloc(self, size, align=1, across=False):
        """`across`: no border of regions may lie within."""
        gpa = -(-self.next // align) * align
        while not across and self.at(gpa).gpa + self.at(gpa).size < gpa + size:
            gpa = -(-(self.at(gpa).gpa + self.at(gpa).size) // align) * align
        self.next = gpa + size
        assert self.next <= self.end, "guest memory is used up"
        return gpa

    def at(self, gpa):
        return next(r for r in self.regions if r.gpa <= gpa < r.gpa + r.size)

    def uva(self, gpa):
        r = self.at(gpa)
        return gpa - r.gpa + r.uva

    def write(self, gpa, data):
        while data:
            r = self.at(gpa)
            at = gpa - r.gpa
            n = min(len(data), r.size - at)
            r.map[r.offset + at:r.offset + at + n] = data[:n]
            gpa, data = gpa + n, data[n:]

    def read(self, gpa, size):
        out = b""
        while size:
            r = self.at(gpa)
            at = gpa - r.gpa
            n = min(size, r.size - at)
            out += r.map[r.offset + at:r.offset + at + n]
            gpa, size = gpa + n, size - n
        return out

    def close(self):
        for r in self.regions:
            r.map.close()
            os.close(r.fd)


class Ring:
    """The driver's half of one split virtqueue."""

    def __init__(self, mem, index, size, features, base=0):
        self.mem, self.index, self.size, self.features = mem, index, size, features
        self.desc = mem.alloc(16 * size, 16)
        self.avail = mem.alloc(6 + 2 * size, 2)
        self.used = mem.alloc(6 + 8 * size, 4)
        self.tables = {}
        self.kick, self.call, self.err = (os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(3))
        self.restart(base)

    def restart(self, base=0):
        self.free = list(range(self.size))
        self.out = {}  # head: (descriptors, cookie)
        self.avail_idx = self.last_used = base
        self.mem.write(self.avail, struct.pack("<HH", 0, base) + bytes(2 * self.size + 2))
        self.mem.write(self.used, struct.pack("<HH", 0, base) + bytes(8 * self.size + 2))

    def u16(self, gpa):
        return struct.unpack("<H", self.mem.read(gpa, 2))[0]

    def add(self, pieces, cookie, table=None):
        """Pieces are (gpa, length, writable).  `table`: where an indirect one goes.  False: no room."""
        need = 1 if table is not None else len(pieces)
        if need > len(self.free):
            return False
        heads = [self.free.pop() for _ in range(need)]
        if table is not None:
            for i, (gpa, size, writable) in enumerate(pieces):
                more = i + 1 < len(pieces)
                self.mem.write(table + 16 * i, struct.pack("<QIHH", gpa, size, writable * WRITE | more * NEXT, i + 1 if more else 0))
            self.mem.write(self.desc + 16 * heads[0], struct.pack("<QIHH", table, 16 * len(pieces), INDIRECT, 0))
        else:
            for i, (gpa, size, writable) in enumerate(pieces):
                more = i + 1 < len(pieces)
                self.mem.write(self.desc + 16 * heads[i],
                               struct.pack("<QIHH", gpa, size, writable * WRITE | more * NEXT, heads[i + 1] if more else 0))
        self.mem.write(self.avail + 4 + 2 * (self.avail_idx % self.size), struct.pack("<H", heads[0]))
        self.avail_idx = (self.avail_idx + 1) & 0xffff
        self.out[heads[0]] = (heads, cookie)
        return True

    def publish(self):
        """Makes what was added visible; kicks where the device asks for it."""
        before = self.u16(self.avail + 2)
        self.mem.write(self.avail + 2, struct.pack("<H", self.avail_idx))
        fence()
        if self.features >> BITS["event_idx"] & 1:
            event = self.u16(self.used + 4 + 8 * self.size)
            wanted = (self.avail_idx - event - 1) & 0xffff < (self.avail_idx - before) & 0xffff
        else:
            wanted = not self.u16(self.used) & 1
        if wanted:
            os.eventfd_write(self.kick, 1)

    def reap(self):
        """What the device has used: [(cookie, bytes written)]."""
        done = []
        end = self.u16(self.used + 2)
        assert (end - self.last_used) & 0xffff <= len(self.out), f"ring {self.index}: more used than was out"
        while self.last_used != end:
            head, size = struct.unpack("<II", self.mem.read(self.used + 4 + 8 * (self.last_used % self.size), 8))
            heads, cookie = self.out.pop(head)
            self.free += heads
            done.append((cookie, size))
            self.last_used = (self.last_used + 1) & 0xffff
        return done

    def arm(self, on=True):
        """Asks for an interrupt with the next used entry, or for none.  True: there is something already."""
        if self.features >> BITS["event_idx"] & 1:
            self.mem.write(self.avail + 4 + 2 * self.size, struct.pack("<H", (self.last_used if on else self.last_used - 1) & 0xffff))
        else:
            self.mem.write(self.avail, struct.pack("<H", not on))
        fence()
        return self.u16(self.used + 2) != self.last_used

    def close(self):
        for fd in self.kick, self.call, self.err:
            os.close(fd)


def sleep_for_calls(rings, seconds=PATIENCE):
    """Sleeps until a call comes for one of the armed rings; returns whether one did."""
    if any([r.arm() for r in rings]):
        return True
    ready = select.select([r.call for r in rings], [], [], seconds)[0]
    for fd in ready:
        os.eventfd_read(fd)
    return bool(ready)


class Frontend:
    """One session.  Every request asks for an acknowledgement once that is negotiated."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.sock.settimeout(PATIENCE)
        self.acks = False

    def send(self, request, payload=b"", fds=(), flags=1):
        data = struct.pack("<III", request, flags, len(payload)) + payload
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([data], ancillary)

    def receive(self, request):
        head = self.read(12)
        got, flags, size = struct.unpack("<III", head)
        assert (got, flags & 7) == (request, 5), f"answer {got} with flags {flags:#x} to request {request}"
        return self.read(size)

    def read(self, n):
        data = b""
        while len(data) < n:
            part = self.sock.recv(n - len(data))
            if not part:
                raise ConnectionError("the device has closed the connection")
            data += part
        return data

    def ask(self, request, payload=b"", need_reply=False):
        """A request that has an answer of its own."""
        self.send(request, payload, flags=9 if need_reply else 1)
        return self.receive(request)

    def tell(self, request, payload=b"", fds=()):
        """A request that has none.  The acknowledgement: 0 is well, without REPLY_ACK it is taken to be."""
        self.send(request, payload, fds, 9 if self.acks else 1)
        return struct.unpack("<Q", self.receive(request))[0] if self.acks else 0

    def must(self, *words, **kw):
        assert self.tell(*words, **kw) == 0, f"request {words[0]} was refused"

    def hello(self, features, protocol=REPLY_ACK | MQ | CONFIG):
        """Up to and with the features; returns those that were offered."""
        self.must(SET_OWNER)
        offered, = struct.unpack("<Q", self.ask(GET_FEATURES))
        if features >> BITS["protocol_features"] & 1:
            can, = struct.unpack("<Q", self.ask(GET_PROTOCOL_FEATURES))
            self.protocol = protocol & can
            self.tell(SET_PROTOCOL_FEATURES, struct.pack("<Q", self.protocol))
            self.acks = bool(self.protocol & REPLY_ACK)
        self.must(SET_FEATURES, struct.pack("<Q", features & offered))
        return offered

    def table(self, regions):
        self.must(SET_MEM_TABLE, struct.pack("<II", len(regions), 0) + b"".join(r.words() for r in regions), [r.fd for r in regions])

    def add_region(self, region):
        if self.acks:
            self.must(ADD_MEM_REG, bytes(8) + region.words(), [region.fd])
        else:
            self.send(ADD_MEM_REG, bytes(8) + region.words(), [region.fd])

    def ring(self, rng, ring, base=0, enable=True):
        """Its messages in any order that has the kick fd last, since that starts it."""
        steps = [(SET_VRING_NUM, struct.pack("<II", ring.index, ring.size), ()),
                 (SET_VRING_BASE, struct.pack("<II", ring.index, base), ()),
                 (SET_VRING_ADDR, struct.pack("<IIQQQQ", ring.index, 0, *(ring.mem.uva(a) for a in (ring.desc, ring.used, ring.avail)), 0), ()),
                 (SET_VRING_CALL, struct.pack("<Q", ring.index), (ring.call,)),
                 (SET_VRING_ERR, struct.pack("<Q", ring.index), (ring.err,))]
        while True:
            rng.shuffle(steps)
            order = [s[0] for s in steps]
            if order.index(SET_VRING_NUM) < order.index(SET_VRING_ADDR):
                break
        if enable and self.acks:
            steps.insert(rng.randrange(len(steps) + 1), (SET_VRING_ENABLE, struct.pack("<II", ring.index, 1), ()))
            enable = False
        for step in [*steps, (SET_VRING_KICK, struct.pack("<Q", ring.index), (ring.kick,))]:
            self.must(*step)
        if enable:
            self.must(SET_VRING_ENABLE, struct.pack("<II", ring.index, 1))

    def stop(self, index):
        """What the device has taken so far."""
        return struct.unpack("<II", self.ask(GET_VRING_BASE, struct.pack("<II", index, 0)))[1]

    def close(self):
        self.sock.close()
