"""Sits between a driver and a device on the vhost-user socket: hands everything on, knows the memory and the eventfds that went by, and
breaks off, swaps memory tables, rings bells for nothing or writes into the rings when it is told to."""
import contextlib
import mmap
import os
import queue
import random
import select
import socket
import struct
import threading
import time

from lab import Violation

SET_MEM_TABLE, SET_VRING_ADDR, SET_VRING_KICK, SET_VRING_CALL = 5, 9, 12, 13
HAVE_REPLIES = {1, 11, 15, 17, 24, 36, 40}  # GET_FEATURES, GET_VRING_BASE, ...
NEED_REPLY = 8
PATIENCE = 0.7  # seconds: a driver waits a little longer for its device


def receive(sock):
    """(header and payload, fds), or None when the peer has gone."""
    data, fds, _, _ = socket.recv_fds(sock, 12, 16)
    size = struct.unpack("=III", data)[2] if len(data) == 12 else 0
    while 0 < len(data) < 12 + size:
        part = sock.recv(12 + size - len(data))
        if not part:
            return None
        data += part
    return (data, fds) if data else None


class Proxy:
    def __init__(self, path, to):
        self.to = to
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(4)
        self.orders, self.bell = queue.Queue(), os.eventfd(0, os.EFD_CLOEXEC)
        self.ended, self.sessions, self.waits = False, 0, 0
        self.table, self.memory, self.rings, self.bells = None, [], {}, {}
        self.driver = self.device = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    # ---- handing on ----

    def forget(self):
        for fd in self.memory + list(self.bells.values()):
            os.close(fd)
        self.table, self.memory, self.rings, self.bells = None, [], {}, {}
        for s in self.driver, self.device:
            if s:
                s.close()
        self.driver = self.device = None
        self.waits = 0

    def meet(self):
        self.driver, _ = self.listener.accept()
        deadline = time.monotonic() + PATIENCE
        while self.device is None and time.monotonic() < deadline:
            s = socket.socket(socket.AF_UNIX)
            try:
                s.connect(self.to)
                self.device = s
                self.sessions += 1
            except OSError:
                s.close()
                time.sleep(0.005)
        if self.device is None:
            self.forget()

    def note(self, data, fds):
        request, flags, _ = struct.unpack_from("=III", data)
        if request in HAVE_REPLIES or flags & NEED_REPLY:
            self.waits += 1
        if request == SET_MEM_TABLE:
            for fd in self.memory:
                os.close(fd)
            self.table, self.memory = data[12:], [os.dup(fd) for fd in fds]
        elif request == SET_VRING_ADDR:
            index, _, desc, used, avail, _ = struct.unpack_from("=IIQQQQ", data, 12)
            self.rings[index] = (desc, avail, used)
        elif request in (SET_VRING_KICK, SET_VRING_CALL) and fds:
            key = (request, data[12])
            if key in self.bells:
                os.close(self.bells[key])
            self.bells[key] = os.dup(fds[0])

    def hand_on(self, source, sink):
        try:
            message = receive(source)
            if message is None:
                return False
            data, fds = message
            try:
                if source is self.driver:
                    self.note(data, fds)
                else:
                    self.waits -= 1
                socket.send_fds(sink, [data], fds)
            finally:
                for fd in fds:
                    os.close(fd)
            return True
        except OSError:
            return False

    def run(self):
        while not self.ended:
            poll = select.poll()
            poll.register(self.bell, select.POLLIN)
            for s in (self.driver, self.device) if self.driver else (self.listener,):
                poll.register(s, select.POLLIN)
            ready = {fd for fd, _ in poll.poll(1000)}
            if self.listener.fileno() in ready and not self.driver:
                self.meet()
                continue
            for source, sink in (self.driver, self.device), (self.device, self.driver):
                if source and source.fileno() in ready and not self.hand_on(source, sink):
                    self.forget()
                    break
            if self.bell in ready and not self.waits:
                os.eventfd_read(self.bell)
                while not self.orders.empty():
                    order, done = self.orders.get()
                    order()
                    done.set()
            elif self.bell in ready:
                time.sleep(0.001)  # a request is under way
        self.forget()

    def order(self, work):
        """Has the thread do this between two messages."""
        done = threading.Event()
        self.orders.put((work, done))
        os.eventfd_write(self.bell, 1)
        if not done.wait(20):
            raise Violation("the proxy hangs: a request was never answered")

    # ---- what it can do ----

    def cut(self):
        self.order(self.forget)

    def swap_tables(self, n):
        """The same memory, described anew; each time the device has to say that it is well."""

        def swap():
            for _ in range(n if self.table else 0):
                message = struct.pack("=III", SET_MEM_TABLE, 1 | NEED_REPLY, len(self.table)) + self.table
                socket.send_fds(self.device, [message], self.memory)
                answer = receive(self.device)
                if answer is None or answer[0][12:] != bytes(8):
                    self.refusal = answer

        self.refusal = None
        self.order(swap)
        if self.refusal is not None:
            raise Violation(f"the device refused a memory table: {self.refusal}")

    def ring_bells(self, n):
        """Kicks and calls without a cause."""

        def ring():
            for fd in list(self.bells.values()):
                for _ in range(n):
                    with contextlib.suppress(BlockingIOError):
                        os.eventfd_write(fd, 1)

        self.order(ring)

    def lie(self, rng: random.Random, to_device):
        """A wrong index where one end looks next; false where there is no ring yet."""

        def write():
            if not self.table or not self.rings:
                return
            base, size = struct.unpack_from("=QQ", self.table, 8)
            desc, avail, used = self.rings[rng.choice([i for i in (0, 1) if i in self.rings])]
            with mmap.mmap(self.memory[0], size) as memory:
                at = (avail if to_device else used) - base
                memory[at + 2:at + 4] = struct.pack("<H", (struct.unpack_from("<H", memory, at + 2)[0] + 20000) & 0xFFFF)

        self.order(write)

    def close(self):
        self.ended = True
        os.eventfd_write(self.bell, 1)
        self.thread.join()
        self.listener.close()
        os.close(self.bell)
