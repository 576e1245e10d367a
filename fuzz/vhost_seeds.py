#!/usr/bin/env python3
"""Writes the seeds of fuzz_vhost_msg, fuzz_mem_table and fuzz_frontend_reply into corpus/."""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
LARGE, EVENT, PIPE_READ, PIPE_WRITE, SOCKET, NULL, SMALL, EXE = range(8)
GPA, UVA, PAGE = 0x10000, 0x7F0000000000, 4096
REPLY, ASK, PLAIN = 5, 9, 1
REQUESTS = {name: number for number, name in enumerate(
    "- get_features set_features set_owner reset_owner set_mem_table set_log_base set_log_fd set_vring_num "
    "set_vring_addr set_vring_base get_vring_base set_vring_kick set_vring_call set_vring_err get_protocol_features "
    "set_protocol_features get_queue_num set_vring_enable send_rarp net_set_mtu set_backend_req_fd iotlb_msg "
    "set_vring_endian get_config set_config".split())}
REQUESTS |= {"reset_device": 34, "get_max_mem_slots": 36, "add_mem_reg": 37, "rem_mem_reg": 38, "set_status": 39,
             "get_status": 40}


def u64(value):
    return struct.pack("<Q", value)


def state(index, num):
    return struct.pack("<II", index, num)


def region(gpa=GPA, size=16 * PAGE, uva=UVA, offset=0):
    return struct.pack("<QQQQ", gpa, size, uva, offset)


def message(name, payload=b"", flags=ASK):
    return struct.pack("<III", REQUESTS[name], flags, len(payload)) + payload


def step(data, *fds):
    return bytes([len(fds), *fds]) + struct.pack("<H", len(data)) + data


def say(name, payload=b"", *fds):
    return step(message(name, payload), *fds)


def config(offset, size, data=b""):
    return struct.pack("<III", offset, size, 0) + data.ljust(size, b"\1")


PROTOCOL = u64(0x1A239)
HELLO = (say("get_features") + say("get_protocol_features") + say("set_protocol_features", PROTOCOL) +
         say("set_owner") + say("set_features", u64(1 << 32 | 1 << 30)))
MEMORY = say("set_mem_table", struct.pack("<II", 1, 0) + region(), LARGE)
ADDR = struct.pack("<IIQQQQ", 0, 0, UVA, UVA + 1024, UVA + 512, 0)
RING = (say("set_vring_call", u64(0), EVENT) + say("set_vring_num", state(0, 16)) + say("set_vring_base", state(0, 0)) +
        say("set_vring_addr", ADDR) + say("set_vring_kick", u64(0), EVENT))
PACKED = HELLO + say("set_features", u64(1 << 34 | 1 << 32 | 1 << 30))


def vhost_msg():
    yield "hello", HELLO
    yield "ring", HELLO + MEMORY + RING + say("set_vring_enable", state(0, 1)) + say("get_vring_base", state(0, 0))
    yield "ring_before_memory", HELLO + RING + MEMORY
    yield "ring_packed", PACKED + MEMORY + RING + say("get_vring_base", state(0, 0))
    yield "kick_again", HELLO + MEMORY + RING + say("set_vring_kick", u64(0x100)) + say("set_vring_kick", u64(0), PIPE_READ)
    yield "pipes", HELLO + say("set_vring_call", u64(1), PIPE_WRITE) + say("set_vring_err", u64(1), PIPE_WRITE)
    yield "wrong_fds", HELLO + b"".join(say("set_vring_call", u64(1), fd) for fd in range(8))
    yield "config", HELLO + say("get_config", config(0, 24)) + say("set_config", config(2, 4)) + say("get_config", config(9, 99))
    yield "mtu_status", HELLO + say("net_set_mtu", u64(1500)) + say("set_status", u64(15)) + say("get_status") + say("set_status", u64(0))
    yield "resets", HELLO + MEMORY + RING + say("reset_owner") + say("reset_device") + say("set_features", u64(1 << 32))
    yield "slots", (HELLO + say("get_max_mem_slots") + say("add_mem_reg", u64(0) + region(), LARGE) + RING +
                    say("add_mem_reg", u64(0) + region(0, PAGE, 0x1000), SMALL) +
                    say("rem_mem_reg", u64(0) + region()) + say("rem_mem_reg", u64(0) + region(0, PAGE, 0x1000), SMALL))
    yield "channel", HELLO + say("set_backend_req_fd", b"", SOCKET) + say("get_queue_num")
    yield "unserved", HELLO + say("set_log_base", u64(0), LARGE) + say("iotlb_msg", bytes(32)) + say("send_rarp", u64(1))
    yield "too_many_fds", HELLO + say("set_mem_table", struct.pack("<II", 9, 0) + region(), *[LARGE] * 9)
    yield "legacy", say("set_owner") + say("set_features", u64(1 << 32)) + MEMORY + RING
    whole = message("set_protocol_features", PROTOCOL) + message("set_owner") + message("set_vring_num", state(1, 8))
    yield "bytes", b"".join(step(whole[i:i + 1]) for i in range(len(whole)))
    yield "one_go", step(whole)
    yield "short_header", HELLO + step(message("get_features")[:11])
    yield "huge", step(struct.pack("<III", 5, ASK, 0xFFFFFFFF))


def spec(kind, gpa, size, uva=UVA, offset=0):
    return struct.pack("<BQQQQ", kind, gpa, uva, size, offset)


def look(gpa, length, op=2):
    return struct.pack("<BQI", op, gpa, length)


def mem_table():
    two = b"\0" + spec(0, GPA, 4 * PAGE) + b"\0" + spec(1, GPA + 4 * PAGE, PAGE, UVA + 4 * PAGE, 100)
    yield "one", b"\0" + spec(0, GPA, 16 * PAGE) + look(GPA, PAGE) + look(GPA + 16 * PAGE - 1, 2) + look(UVA, 64, 3)
    yield "adjacent", two + look(GPA + 4 * PAGE - 10, 20) + look(GPA, 5 * PAGE) + look(GPA, 5 * PAGE + 1)
    yield "remove", two + b"\1" + spec(0, GPA, 4 * PAGE) + look(GPA, 1) + look(GPA + 4 * PAGE, 1)
    yield "remove_other_file", two + b"\1" + spec(1, GPA, 4 * PAGE)
    yield "again", two + two + (b"\1" + spec(0, GPA, 4 * PAGE)) * 3 + look(GPA, 1) + look(GPA + 4 * PAGE, 1)
    yield "overlap", two + b"\0" + spec(0, GPA + PAGE, PAGE)
    yield "too_large", b"\0" + spec(0, 0, 16 * PAGE, 0, 1) + b"\0" + spec(0, 0, 16 * PAGE - 1, 0, 1) + look(0, 100)
    yield "wraps", b"\0" + spec(0, 2**64 - PAGE, PAGE) + b"\0" + spec(0, 2**64 - PAGE, PAGE - 1) + look(2**64 - 10, 20)
    yield "table", b"\4\2" + spec(0, 0, PAGE) + spec(1, PAGE, PAGE, 0, 104) + spec(0, 9 * PAGE, 3) + look(PAGE - 1, 2)
    yield "bad_files", b"\0" + spec(2, 0, PAGE) + b"\0" + spec(3, 0, PAGE) + b"\4\1" + spec(0, 0, PAGE) + spec(2, PAGE, PAGE)


def answer(name, payload=b"", flags=REPLY):
    return message(name, payload, flags)


def frontend_reply():
    def case(call, reply, channel=b"", fds=0):
        return bytes([call, len(channel), fds]) + channel + reply

    hello = answer("get_features", u64(1 << 32 | 1 << 30)) + answer("get_protocol_features", PROTOCOL)
    changed = struct.pack("<III", 2, PLAIN, 0)
    yield "hello", case(0 | 128, hello)
    yield "hello_plain", case(0 | 128, answer("get_features", u64(1 << 32)))
    yield "refused", case(1, answer("set_features", u64(1)))
    yield "queue_num", case(2, answer("get_queue_num", u64(4)))
    yield "base", case(3, answer("get_vring_base", state(1, 77)))
    yield "base_of_another", case(3, answer("get_vring_base", state(0, 77)))
    yield "config", case(4, answer("get_config", config(0, 24)))
    yield "config_none", case(4, answer("get_config"))
    yield "config_all", case(5, answer("get_config", config(2, 256)))
    yield "status", case(6, answer("get_status", u64(15)))
    yield "channel", case(7, answer("set_backend_req_fd", u64(0)), changed)
    yield "channel_wants_answer", case(6, answer("get_status", u64(0)), struct.pack("<III", 2, ASK, 0) + changed)
    yield "channel_lies", case(6, answer("get_status", u64(0)), struct.pack("<III", 4, PLAIN, 8) + u64(0))
    yield "vring", case(8, b"".join(answer(n, u64(0)) for n in ("set_vring_num", "set_vring_base", "set_vring_addr")))
    yield "fds", case(6, answer("get_status", u64(0)), b"", 3)
    yield "short", case(6, answer("get_status", u64(0))[:15])
    yield "huge", case(6, struct.pack("<III", 40, REPLY, 0xFFFFFFFF))


for target in (vhost_msg, mem_table, frontend_reply):
    directory = CORPUS / target.__name__
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in target():
        (directory / name).write_bytes(data)
