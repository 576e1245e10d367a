"""What can happen to a link, by name.  Each leaves it able to recover by itself; the ledger is told what may be lost."""
import contextlib
import signal
import socket
import time

FAULTS = {}  # name: (weight, function)


def fault(weight):
    def register(function):
        FAULTS[function.__name__.replace("_", "-")] = weight, function
        return function
    return register


def kill(f, side):
    side.dies()
    f.ledger.may_lose(2)
    side.end.kill()
    f.stream.say("pause")
    side.begins()
    side.end.start()
    f.stream.say("go")


@fault(3)
def kill_driver(f):
    kill(f, f.ledger.b)


@fault(3)
def kill_device(f):
    kill(f, f.ledger.a)


@fault(6)
def reconnect(f):
    f.ledger.may_lose()
    f.proxy.cut()


@fault(6)
def memory_tables(f):
    f.proxy.swap_tables(20)


@fault(2)
def ring_lie_to_device(f):
    f.proxy.lie(f.rng, True)
    time.sleep(0.02)
    f.ledger.may_lose()
    f.proxy.cut()


@fault(2)
def ring_lie_to_driver(f):
    f.ledger.may_lose(2)
    f.proxy.lie(f.rng, False)
    time.sleep(0.02)
    f.proxy.cut()


@fault(3)
def bells_for_nothing(f):
    f.proxy.ring_bells(200)


@fault(3)
def tap_down(f):
    tap = f.rng.choice([f.tap_a, f.tap_b])
    tap.set("down")
    time.sleep(f.rng.uniform(0, 0.05))
    tap.set("up")


@fault(3)
def stopped_for_a_while(f):
    end = f.rng.choice([f.device, f.driver, f.victim])
    end.process.send_signal(signal.SIGSTOP)
    time.sleep(f.rng.uniform(0.01, 0.3))
    end.process.send_signal(signal.SIGCONT)


@fault(3)
def link_of_the_operator(f):
    end = f.rng.choice([f.device, f.driver])
    end.ask("link", state="down")
    time.sleep(f.rng.uniform(0, 0.05))
    end.ask("link", state="up")


@fault(4)
def flood(f):
    f.stream.say(3000)


@fault(6)
def settings_of_the_device(f):
    rng = f.rng
    f.device.ask("set", **rng.choice([
        {"poll-us": rng.choice([0, 1, 20, 50])}, {"adaptive": rng.choice(["off", "rx", "tx", "both"])},
        {"tx-usecs": rng.randrange(200), "tx-frames": rng.randrange(64)}, {"rx-usecs": rng.randrange(200), "rx-frames": rng.randrange(64)},
        {"tx-usecs": 1 << 40}, {"no-such-key": 1}]))


@fault(6)
def settings_of_the_driver(f):
    rng = f.rng
    f.driver.ask("set", **rng.choice([
        {"tx-mode": rng.choice(["napi", "orphan"])}, {"kick": rng.choice(["burst", "each"])}, {"bql": rng.choice(["on", "off"])},
        {"rx-buffers": rng.choice(["auto", "mtu", "page"])}, {"clean-tx-from-rx": rng.choice(["on", "off"])}, {"poll-us": rng.choice([0, 20])}]))


@fault(4)
def coalescing_of_the_guest(f):
    rng = f.rng  # NOTF_COAL on the control queue
    f.driver.ask("set", **rng.choice([{"tx-usecs": rng.randrange(200), "tx-frames": rng.randrange(64)},
                                      {"rx-usecs": rng.randrange(200), "rx-frames": rng.randrange(64)},
                                      {"tx-usecs": 0, "tx-frames": 0, "rx-usecs": 0, "rx-frames": 0}]))


@fault(2)
def capture(f):
    end = f.rng.choice([f.device, f.driver])
    with open(f"{f.dir}/{end.name}.pcap", "w+b") as file, socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(end.ctl)
        socket.send_fds(s, [b'{"id":1,"command":"pcap"}\n'], [file.fileno()])
        s.recv(4096)
        time.sleep(0.03)
        end.ask("pcap")


@fault(3)
def noise_at_the_control_socket(f):
    end = f.rng.choice([f.device, f.driver, f.victim])
    with socket.socket(socket.AF_UNIX) as s, contextlib.suppress(OSError):
        s.settimeout(5)
        s.connect(end.ctl)
        s.sendall(f.rng.choice([f.rng.randbytes(300), b'{"id":', b'{"id":1,"command":"stop"' + b" " * 70000, b"[" * 5000, b"\n" * 100]))


@fault(3)
def second_front_end(f):
    with socket.socket(socket.AF_UNIX) as s, contextlib.suppress(OSError):
        s.settimeout(5)
        s.connect(f"{f.dir}/device.sock")
        s.sendall(f.rng.randbytes(100))


@fault(4)
def socket_garbage(f):
    f.liar.bytes_()


@fault(4)
def wild_messages(f):
    f.liar.messages()


@fault(6)
def hostile_rings(f):
    f.liar.rings()
