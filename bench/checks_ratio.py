#!/usr/bin/env python3
"""Packets a second of the rings with their checks against the same rings without: 0.9 or better.

usage: checks_ratio.py RING_BENCH RING_BENCH_UNCHECKED [PACKETS]
"""
import re
import statistics
import subprocess
import sys

ROUNDS = 5  # taken in turns, so that both meet the same machine


def speeds(program, packets):
    """{what: million packets a second} of the cells in one thread"""
    out = subprocess.run([program, packets, "one"], capture_output=True, text=True, check=True).stdout
    return {f"dir={d} size={s} burst={b}": float(m) for d, s, b, m in
            re.findall(r"^bench=ring dir=(\S+) size=(\d+) burst=(\d+) threads=1 .*?mpps=([\d.]+)", out, re.M)}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    packets = sys.argv[3] if len(sys.argv) > 3 else "1000000"
    rounds = [(speeds(sys.argv[1], packets), speeds(sys.argv[2], packets)) for _ in range(ROUNDS)]
    ratios = []
    for what in rounds[0][0]:
        ratio = max(r[0][what] for r in rounds) / max(r[1][what] for r in rounds)
        ratios.append(ratio)
        print(f"bench=checks {what} ratio={ratio:.3f}")
    if not ratios:
        sys.exit("checks_ratio: no cell was understood")
    mean = statistics.geometric_mean(ratios)
    print(f"bench=checks ratio={mean:.3f}")
    sys.exit(mean < 0.9)


if __name__ == "__main__":
    main()
