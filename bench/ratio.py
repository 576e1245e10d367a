"""What the benchmarks that compare share: medians of values that were measured in turn, and their ratios.

A machine's speed changes from one second to the next, so the things compared are measured A B A B, and what is printed is the median of
each, and of the ratios within each turn."""
import statistics


def report(key, yardstick, values):
    """Prints key=value lines: the median of each name in `values`, and its ratio to the yardstick's of the same turn."""
    for name, all_of_it in values.items():
        print(f"{key}_{name}={statistics.median(all_of_it):.4g} min={min(all_of_it):.4g} max={max(all_of_it):.4g} n={len(all_of_it)}")
    for name, all_of_it in values.items():
        if name != yardstick:
            ratio = statistics.median(a / b for a, b in zip(all_of_it, values[yardstick]))
            print(f"{key}_{name}_ratio={ratio:.3f}", flush=True)
