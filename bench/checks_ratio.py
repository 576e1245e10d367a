#!/usr/bin/env python3
"""Packets a second of the rings with their checks against the same rings without: 0.9 or better.

usage: checks_ratio.py RING_BENCH RING_BENCH_UNCHECKED [PACKETS [ROUNDS]]

A machine that others use is faster at one moment than at the next, so what is compared are neighbours in time: each round measures
one program, the other twice and the first again, and gives one ratio for each cell.  A cell's figure is the median of its rounds, the
result the geometric mean of the cells; the quartiles tell how far to trust them.
"""
import re
import statistics
import subprocess
import sys

LEAST = 0.9


def speeds(program, packets):
    """{cell: million packets a second} in one thread"""
    out = subprocess.run([program, packets, "one"], capture_output=True, text=True, check=True).stdout
    return {f"dir={d} size={s} burst={b}": float(m) for d, s, b, m in
            re.findall(r"^bench=ring dir=(\S+) size=(\d+) burst=(\d+) threads=1 .*?mpps=([\d.]+)", out, re.M)}


def one_round(checked, unchecked, packets):
    """{cell: ratio}; whatever grows or falls evenly over the round is in neither."""
    a, b, c, d = (speeds(p, packets) for p in (checked, unchecked, unchecked, checked))
    return {cell: (1 / b[cell] + 1 / c[cell]) / (1 / a[cell] + 1 / d[cell]) for cell in a}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    packets, count = (sys.argv[3:] + ["300000", "15"][len(sys.argv) - 3:])[:2]
    speeds(sys.argv[1], packets)  # the CPU's clock, the page cache
    rounds = [one_round(sys.argv[1], sys.argv[2], packets) for _ in range(int(count))]
    medians = []
    for cell in rounds[0]:
        low, median, high = statistics.quantiles((r[cell] for r in rounds), n=4)
        medians.append(median)
        print(f"bench=checks {cell} ratio={median:.3f} quartiles={low:.3f}..{high:.3f}")
    if not medians:
        sys.exit("checks_ratio: no cell was understood")
    mean = statistics.geometric_mean(medians)
    print(f"checks_ratio={mean:.3f} rounds={count}")
    sys.exit(mean < LEAST)


if __name__ == "__main__":
    main()
