#!/usr/bin/env python3
"""Writes the seeds of fuzz_split_device and fuzz_split_driver into corpus/."""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
GPA, AVAIL, USED, BUF, HALF = 0x10000, 256, 320, 512, 2048
NEXT, WRITE, INDIRECT = 1, 2, 4
POP, PUSH, REWIND, CALL, ENABLE, DISABLE, MORE = 0 + 8 * 7, 2, 3 + 8 * 1, 4, 5, 6, 7 + 8 * 1


def desc(addr, length, flags=0, link=0):
    return struct.pack("<QIHH", addr, length, flags, link)


def write(target, name, data):
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    (CORPUS / target / name).write_bytes(data)


def device(name, descs, heads, ops, log_size=3, features=3, table=b"", table_at=BUF, base=0):
    image = bytearray(2 * HALF)
    image[:16 * len(descs)] = b"".join(descs)
    struct.pack_into("<HH", image, AVAIL, 0, (base + len(heads)) % 65536)
    for i, head in enumerate(heads):
        struct.pack_into("<H", image, AVAIL + 4 + 2 * ((base + i) % (1 << log_size)), head)
    struct.pack_into("<HH", image, USED, 0, base)
    image[table_at:table_at + len(table)] = table
    write("split_device", name, bytes([log_size, features, len(ops)] + ops) + bytes(image))


def devices():
    buf = GPA + BUF
    one = [desc(buf, 64), desc(buf + 64, 64, WRITE)]
    pair = [desc(buf, 64, NEXT, 1), desc(buf + 64, 64, WRITE)]
    table = desc(buf, 64, NEXT, 1) + desc(buf + 64, 64, WRITE)
    all_ops = [ENABLE, POP, PUSH, CALL, DISABLE, POP, ENABLE, MORE, POP, REWIND, POP, PUSH, CALL]
    device("plain", one, [0, 1], all_ops)
    device("wrap", one, [0, 1, 0, 1], all_ops, base=65534)
    device("chain", pair, [0], all_ops)
    device("ring_of_one", one[:1], [0], all_ops, log_size=0)
    device("no_features", pair, [0, 0], all_ops, features=0)
    device("crossing", [desc(GPA + HALF - 10, 100)], [0], all_ops)
    device("hole", [desc(GPA + 2 * HALF - 10, 100)], [0], all_ops)
    device("bad_head", one, [0, 9], all_ops)
    device("bad_next", [desc(buf, 1, NEXT, 99)], [0], all_ops)
    device("loop", [desc(buf, 1, NEXT, 1), desc(buf, 1, NEXT, 0)], [0], all_ops)
    device("order", [desc(buf, 1, NEXT | WRITE, 1), desc(buf, 1)], [0], all_ops)
    device("empty", [desc(0, 0, NEXT, 1), desc(buf, 4)], [0], all_ops)
    device("table", [desc(buf + 64, 32, INDIRECT)], [0], all_ops, table=table, table_at=BUF + 64)
    device("direct_then_table", [desc(buf, 8, NEXT, 1), desc(buf + 64, 32, INDIRECT)], [0], all_ops, table=table,
           table_at=BUF + 64)
    device("table_crossing", [desc(GPA + HALF - 24, 32, INDIRECT)], [0], all_ops, table=table, table_at=HALF - 24)
    device("table_crooked", [desc(buf + 3, 32, INDIRECT)], [0], all_ops, table=table, table_at=BUF + 3)
    device("table_length", [desc(buf, 17, INDIRECT)], [0], all_ops)
    device("table_nested", [desc(buf, 16, INDIRECT)], [0], all_ops, table=desc(buf, 16, INDIRECT))
    device("index", one, [0] * 9, all_ops)


def drivers():
    # a ring of eight has its used part at 192
    add, use, publish, reap, kick, ask, later, off, look, poke = 0, 2, 4, 5 + 16 * 7, 6, 7, 8, 9, 10, 15
    turn = [add, add + 16 * 5, publish, kick, ask, use, use, look, reap]
    for name, size, features, ops in (
            ("turns", 3, 2, turn * 10),
            ("indirect", 3, 3, turn * 10),
            ("flags", 3, 0, turn * 4 + [off] + turn * 4),
            ("ring_of_one", 0, 2, [add, publish, kick, use, reap] * 5),
            ("delayed", 4, 2, [add] * 8 + [publish, later, use, reap, ask, use, reap]),
            ("left_over", 4, 2, [add] * 20 + [publish]),
            ("bad_id", 3, 2, [add, publish, use, poke, 196, 0, 77, reap, add]),
            ("index", 3, 2, [add, publish, poke, 194, 0, 9, reap, kick, ask]),
            ("table", 3, 2, [add + 16 * 5, publish, poke, 14, 0, 255, use, reap] * 4)):
        write("split_driver", name, bytes([size, features] + ops))


devices()
drivers()
