#!/usr/bin/env python3
"""src/bench/summary and latency against Python's statistics on random samples:  test_summary.py SUMMARY_FILTER"""
import math
import random
import statistics
import subprocess
import sys


def interval(values):
    """The narrowest symmetric pair of order statistics with 95 %, by adding up binomials exactly."""
    ordered, n = sorted(values), len(values)
    best = (ordered[0], ordered[-1], 1 - 2 / 2**n)
    for cut in range((n + 1) // 2):
        confidence = 1 - 2 * sum(math.comb(n, k) for k in range(cut + 1)) / 2**n
        if confidence >= 0.95:
            best = (ordered[cut], ordered[-1 - cut], confidence)
    return best


def percentile(values, p):
    return statistics.quantiles(values, n=100, method="inclusive")[p - 1] if len(values) > 1 else values[0]


def expected(values):
    half = len(values) // 2
    ratios = [b / a for a, b in zip(values[:half], values[half:2 * half])]
    return [len(values), statistics.median(values), min(values), max(values), *interval(values), percentile(values, 10),
            percentile(values, 99), statistics.median(ratios) if ratios else 0]


def check_latency(values, p, got):
    """Within a per cent of the samples next to the percentile's place."""
    ordered = sorted(abs(v) * 1e6 for v in values)
    at = p / 100 * len(ordered)
    low = ordered[max(0, math.ceil(at) - 2)] * 0.99 - 1
    high = ordered[min(len(ordered) - 1, math.ceil(at))] * 1.01 + 1
    return low <= got <= high


def main():
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    shapes = [lambda: rng.uniform(1, 100), lambda: rng.gauss(1000, 30), lambda: rng.paretovariate(1.5),
              lambda: float(rng.randint(1, 4))]
    samples = [[rng.choice(shapes)() for _ in range(n)] for n in [*range(1, 40), 100, 333, 1000] for _ in range(5)]
    text = "\n".join(" ".join(map(repr, s)) for s in samples)
    out = subprocess.run([sys.argv[1]], input=text + "\n", capture_output=True, text=True, check=True).stdout
    lines = out.splitlines()
    assert len(lines) == len(samples), (len(lines), len(samples))
    for values, line in zip(samples, lines):
        *got, p50, p99 = map(float, line.split())
        for g, e in zip(got, expected(values), strict=True):
            assert math.isclose(g, e, rel_tol=1e-9, abs_tol=1e-12), (seed, values, got, expected(values))
        assert check_latency(values, 50, p50) and check_latency(values, 99, p99), (seed, values, p50, p99)
    print(f"{len(samples)} samples agree (seed {seed})")


main()
