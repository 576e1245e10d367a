#!/usr/bin/env python3
"""Reports of invented results against tables that are reckoned here:  test_report.py VWIRE"""
import copy
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import results

VWIRE, DIR = sys.argv[1], pathlib.Path(tempfile.mkdtemp(prefix="vwire-report."))
SEED = random.randrange(2**32)


def bench(*args, status=0):
    r = subprocess.run([VWIRE, "bench", *map(str, args)], capture_output=True, text=True)
    assert r.returncode == status, (args, r.returncode, r.stderr)
    return r.stdout if status == 0 else r.stderr


def save(result, name="a.json"):
    (DIR / name).write_text(json.dumps(result))
    return DIR / name


def words(row):
    return " ".join(row.values()).split()


def test_tables_on_a_terminal():
    for rounds in 5, 9:
        result = results.invent(rounds, SEED)
        lines = [line.split() for line in bench("report", save(result)).splitlines()]
        for (experiment, work), rows in results.tables(result).items():
            for row in rows:
                if work != "Buffers":  # whose columns stand in another order than they were drawn
                    assert words(row) in lines, (SEED, experiment, work, row)
        assert ["Changes", "in", "per", "cent:", "at", "once", "against", "none;", "16", "or", "16", "us,", "lazy", "against",
                "at", "once."] in lines


def test_tables_on_a_page():
    if not shutil.which("gnuplot"):
        print("# SKIPPED the page: it needs gnuplot")
        return
    result = results.invent(5, SEED)
    bench("report", save(result), f"--html={DIR / 'a.html'}")
    text = (DIR / "a.html").read_text()
    page = results.Page(text)
    expected = results.tables(result)
    assert page.tables.keys() == expected.keys(), (page.tables.keys() ^ expected.keys())
    for key, rows in expected.items():
        assert len(page.tables[key]) == len(rows), key
        for got, row in zip(page.tables[key], rows):
            assert got == row, (SEED, key, got, row)
    assert all(page.charts[name] >= 1 for name in results.EXPERIMENTS), page.charts
    assert "Linux &lt;&amp;&gt; 6.1" in text and "&quot;CPU&quot;" in text
    # nothing from elsewhere, and no program
    assert not re.search(r"<(script|link|iframe|img|object)|@import|(src|href)=.https?:|url\(", text)


def test_behind_is_said_in_words():
    result = results.invent(5, SEED, ["busypoll"])
    for c in result["experiments"][0]["cells"]:
        for r in c["rounds"]:
            r["poll 50 us"]["transactions" if c["workload"] == "TCP_RR" else "gbps"] = 1e-3  # a fall of nearly all
    text = bench("report", save(result))
    assert "Against what was published: 0 ahead, 0 alike, 62 behind." in text
    assert text.count("  behind: ") == 62
    assert re.search(r"behind: TCP_RR 1 B x 1, poll 50 us: -100\.0 % \(-100\.\.-100\), published \+27 %", text)


def test_json_comes_back_as_it_was():
    result = results.invent(5, SEED)
    bench("report", save(result), f"--json={DIR / 'b.json'}")
    again = json.loads((DIR / "b.json").read_text())

    def same(a, b):
        if isinstance(a, float):
            assert abs(a - b) <= 1e-5 * abs(a), (a, b)
        elif isinstance(a, dict):
            assert a.keys() == b.keys(), (a.keys(), b.keys())
            for k in a:
                same(a[k], b[k])
        elif isinstance(a, list):
            assert len(a) == len(b)
            for x, y in zip(a, b):
                same(x, y)
        else:
            assert a == b, (a, b)
    same(result, again)


def test_runs_are_joined_in_the_order_of_the_list():
    whole = results.invent(5, SEED)
    parts = []
    for i, e in enumerate(reversed(whole["experiments"])):
        part = {**whole, "experiments": [e]}
        parts.append(save(part, f"part{i}.json"))
    joined = bench("report", *parts).splitlines()
    assert joined[1:] == bench("report", save(whole)).splitlines()[1:]
    assert "62 s in all" in joined[0]  # five parts of 12.5
    assert "has busypoll, as one before it" in bench("report", parts[-1], parts[-1], status=1)
    other = save({**whole, "experiments": whole["experiments"][1:], "settings": {**whole["settings"], "quick": True}}, "c.json")
    assert "in another way" in bench("report", parts[-1], other, status=1)


def test_what_is_no_result_is_refused():
    result = results.invent(5, SEED, ["autotune"])
    assert "format 1" in bench("report", save({**result, "format": 2}), status=1)
    for break_it in (lambda e: e.update(name="nothing"), lambda e: e["cells"][0].update(workload="x"),
                     lambda e: e["cells"][0].update(size=-1), lambda e: e["cells"][0].update(rounds=3),
                     lambda e: e["cells"][0]["rounds"][0].update(page={"gbps": "fast"}),
                     lambda e: e["cells"][0].update(buffer_sizes={"page": {"1000000": 1}})):
        broken = copy.deepcopy(result)
        break_it(broken["experiments"][0])
        assert bench("report", save(broken), status=1)
    (DIR / "d.json").write_text("{")
    assert bench("report", DIR / "d.json", status=1)


def test_compare_tells_what_changed():
    a = results.invent(5, SEED, ["busypoll", "txintr"])
    same = bench("compare", save(a), save(a, "b.json"))
    assert "0 better, 0 worse, 0 otherwise" in same, same

    def scaled(workload, size, sessions, metric, factor, variants):
        b = copy.deepcopy(a)
        for e in b["experiments"]:
            for c in e["cells"]:
                if e["name"] == "busypoll" and (c["workload"], c["size"], c["sessions"]) == (workload, size, sessions):
                    for r in c["rounds"]:
                        for v in variants:
                            r[v][metric] *= factor
        return bench("compare", save(a), save(b, "b.json"))

    both = scaled("TCP_RR", 64, 50, "transactions", 3, ["poll 0", "poll 50 us"])
    assert both.count("+200.0 %  better") == 2, both  # two values, and no change between variants
    assert len(re.findall(r"of \d+: 2 better, 0 worse", both)) == len(re.findall(r"of \d+: 0 better, 0 worse", both)) == 1, both
    one = scaled("TCP_RR", 64, 50, "kicks", 3, ["poll 50 us"])
    assert len(re.findall(r"of \d+: 0 better, 1 worse", one)) == 2, one  # the value and the change
    within = scaled("TCP_RR", 64, 50, "transactions", 1.001, ["poll 0", "poll 50 us"])
    assert within.count("of ") == same.count("of ") and "better, 0 worse" in within and " 1 better" not in within


try:
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print("ok", name, flush=True)
finally:
    shutil.rmtree(DIR)
