"""Invented results of `vwire bench`, and what its tables must say of them, reckoned from the samples and from bench/published/."""
import csv
import html.parser
import pathlib
import random
import statistics

PUBLISHED = pathlib.Path(__file__).resolve().parents[2] / "bench/published"
CUT = {5: 0, 7: 0, 9: 1, 11: 1}  # samples left out at either side for an interval with 95 %: tables of the sign test

HEADLINES = dict(TCP_RR="transactions", UDP_RR="transactions", GUEST_TX="gbps", GUEST_RX="gbps", GROW_TX="gbps", UDP_TX="kpps",
                 UDP_RX="kpps")
METRICS = {  # heading, decimals, whether more is better
    "transactions": ("transactions/s", 0, 1), "gbps": ("Gbit/s", 3, 1), "kpps": ("kpackets/s", 1, 1), "p50_us": ("p50 us", 1, -1),
    "p99_us": ("p99 us", 1, -1), "per_cpu": ("per CPU", 3, 1), "cpu": ("CPU s/s", 2, -1), "tx_packets": ("tx packets/s", 0, 0),
    "rx_packets": ("rx packets/s", 0, 0), "tx_length": ("bytes/tx packet", 0, 0), "rx_length": ("bytes/rx packet", 0, 0),
    "kicks": ("kicks/s", 0, -1), "tx_interrupts": ("tx interrupts/s", 0, -1), "buffer_size": ("buffer bytes", 0, 0),
    "density": ("bytes used/held", 3, 1)}
V, C = "value", "change"


def product(work, sizes, sessions, threads=1):
    return [(work, size, n, threads) for size in sizes for n in sessions]


EXPERIMENTS = {
    "busypoll": dict(
        variants=["poll 0", "poll 50 us"], bases=[0, 0],
        cells=product("TCP_RR", [1, 64, 256, 512, 1024], [1, 50, 100, 200])
        + product("GUEST_RX", [64, 512, 1024, 2048, 4096, 16384, 65535], [1, 4, 8])
        + product("GUEST_TX", [64, 512, 1024, 2048, 4096, 16384, 65535], [1, 4, 8]),
        columns=[(None, V + C), ("per_cpu", C), ("tx_packets", C), ("rx_packets", C), ("kicks", C)]),
    "contention": dict(
        variants=["poll 0", "poll 50 us"], bases=[0, 0],
        cells=[c for w in ("TCP_RR", "GUEST_TX", "GUEST_RX") for c in product(w, [1, 64, 256, 512, 1024, 4096, 16384], [1])],
        columns=[(None, V + C), ("p99_us", C), ("per_cpu", C)]),
    "txnapi": dict(
        variants=["orphan", "napi", "+coalescing", "+at-rx", "+both", "lazy"], bases=[0] * 6,
        cells=product("GROW_TX", [16384], [1, 10, 100]) + product("GUEST_TX", [16384], [1, 10, 100])
        + product("TCP_RR", [1, 4096], [1, 10, 100]) + product("GUEST_TX", [16384], [10], 4),
        columns=[(None, V + C), ("cpu", V + C), ("p50_us", V + C), ("p99_us", V + C), ("tx_length", V + C), ("tx_interrupts", V)]),
    "txintr": dict(
        variants=["none", "at once", "16 or 16 us", "lazy"], bases=[0, 0, 1, 1],
        cells=product("TCP_RR", [1], [1, 50]) + product("GUEST_TX", [64, 256, 1024, 16384], [1, 4])
        + product("GUEST_RX", [64, 1024, 16384], [1, 4]) + product("UDP_TX", [64], [1]),
        columns=[(None, V + C), ("tx_interrupts", V + C), ("cpu", V + C), ("per_cpu", C)]),
    "autotune": dict(
        variants=["page", "mtu", "auto"], bases=[0, 0, 0],
        cells=product("UDP_RX", [64, 1472], [1]) + product("GUEST_RX", [64, 1500, 65536], [1, 4]),
        columns=[(None, V + C), ("per_cpu", C), ("rx_length", V), ("buffer_size", V), ("density", V)]),
}


# ---- results ----

def metrics_of(cell, columns):
    for metric, _ in columns:
        metric = metric or HEADLINES[cell[0]]
        if not metric.startswith("p") or metric == "per_cpu" or cell[0].endswith("_RR"):
            yield metric


def invent(rounds=5, seed=None, names=EXPERIMENTS):
    """A run as its JSON, with all cells of the experiments."""
    rng = random.Random(seed)
    experiments = []
    for name in names:
        e = EXPERIMENTS[name]
        cells = []
        for cell in e["cells"]:
            level = {m: rng.uniform(1, 1000) for m in metrics_of(cell, e["columns"])}
            c = dict(zip(("workload", "size", "sessions", "threads"), cell))
            c["rounds"] = [{v: {m: x * rng.uniform(0.8, 1.3) for m, x in level.items()} for v in e["variants"]}
                           for _ in range(rounds)]
            if name == "autotune":
                c["buffer_sizes"] = {v: {**{str(64 * rng.randint(20, 30)): rng.randint(100, 1000) for _ in range(3)},
                                         "4032": 1, "4096": 1} for v in e["variants"]}
            cells.append(c)
        experiments.append(dict(name=name, variants=e["variants"], cells=cells))
    return dict(format=1, vwire="0.1.0", started="2026-01-02T03:04:05Z", seconds=12.5, complete=True,
                machine=dict(kernel="Linux <&> 6.1", cpu="A \"CPU\"", cpus=2, memory_mb=4096),
                settings=dict(guest="vwire", quick=False, repeat=rounds, window_ms=1000), experiments=experiments)


# ---- published ----

def table(name, **keys):
    with open(PUBLISHED / f"{name}.csv", newline="") as f:
        rows = [r for r in csv.DictReader(f) if all(r[k] == str(v) for k, v in keys.items())]
    return rows[0] if rows else None


def busypoll(cell, variant, metric):
    file = dict(TCP_RR="tcp_rr", GUEST_TX="guest_tx", GUEST_RX="guest_rx")[cell[0]]
    row = table(f"busypoll_testA_{file}", msg_size_bytes=cell[1], sessions=cell[2])
    column = dict(per_cpu="normalized_pct", tx_packets="tx_packets_pct", rx_packets="rx_packets_pct", kicks="ioexits_pct",
                  ).get(metric, "throughput_pct")
    return row and (float(row[column]),) * 2


def contention(cell, variant, metric):
    row = table("busypoll_testB", workload=cell[0], msg_size_bytes=cell[1])
    return (float(row["delta_pct"]),) * 2 if row and metric == HEADLINES[cell[0]] else None


def txnapi(cell, variant, metric):
    work, size, sessions, threads = cell
    test = "TCP_RR" if (work, size) == ("TCP_RR", 1) else "TCP_STREAM" if work in ("GROW_TX", "GUEST_TX") else None
    name = dict(gbps="throughput_mbps", cpu="gcycles", p50_us="latency_p50_us", p99_us="latency_p99_us").get(metric)
    named = {"orphan": "upstream", "napi": "napi", "+coalescing": "+vhost", "+at-rx": "+at-rx", "+both": "+v+at-rx"}
    if not test or threads > 1 or variant not in named or (metric, sessions, variant) == ("p50_us", 100, "+at-rx"):
        return None
    if metric == "tx_length" and test == "TCP_STREAM":
        rows = [table("tx_napi_2017_bytes_per_pkt", variant=v, streams=sessions) for v in
                ("upstream", {"+at-rx": "at_rx"}.get(variant, variant))]
        numbers = [r and float(r["bytes_per_pkt"]) for r in rows]
    else:
        rows = [table("tx_napi_2017", test=test, concurrency=sessions, metric=name, variant=v) for v in ("upstream", named[variant])]
        numbers = [r and float(r["value"]) for r in rows]
    return ((numbers[1] / numbers[0] - 1) * 100,) * 2 if all(numbers) else None


def txintr(cell, variant, metric):
    key = {("at once", "TCP_RR", "transactions"): ("cover_letter_tx_intr_vs_orphan", "tcp_rr", "regression", -1),
           ("16 or 16 us", "GUEST_RX", "cpu"): ("coalescing_reply", "guest_rx", "cpu_saved", -1),
           ("16 or 16 us", "GUEST_RX", "tx_interrupts"): ("coalescing_reply", "guest_rx", "tx_interrupts_removed", -1),
           ("16 or 16 us", "GUEST_TX", "gbps"): ("coalescing_reply", "guest_tx_small", "throughput_gain", 1),
           ("16 or 16 us", "GUEST_TX", "tx_interrupts"): ("coalescing_reply", "guest_tx_small", "tx_interrupts_removed_approx", -1),
           ("16 or 16 us", "TCP_RR", "transactions"): ("coalescing_reply", "tcp_rr", "transaction_rate_gain", 1),
           ("16 or 16 us", "TCP_RR", "tx_interrupts"): ("coalescing_reply", "tcp_rr", "tx_interrupts_removed", -1),
           }.get((variant, cell[0], metric))
    if not key or (cell[0] == "GUEST_TX" and cell[1] > 256):
        return None
    row = table("tx_interrupts_2014", source=key[0], workload=key[1], metric=key[2])
    return tuple(sorted(key[3] * float(row[end]) for end in ("low", "high")))


def autotune(cell, variant, metric):
    if cell[0] != "GUEST_RX" or cell[1] < 65535 or metric != "gbps":
        return None
    names = dict(page="page_size_bufs_before_2613af0ed18a", mtu="mtu_size_bufs_net_next", auto="auto_tune")
    page, other = (float(table("autotune_2014", variant=names[v])["netperf_tcp_stream_value"]) for v in ("page", variant))
    return ((other / page - 1) * 100,) * 2


# ---- tables ----

def summary(values):
    ordered, cut = sorted(values), CUT[len(values)]
    return statistics.median(values), ordered[cut], ordered[-1 - cut]


def put_metric(row, experiment, e, cell, rounds, v, metric, show):
    heading, decimals, better = METRICS[metric]
    pair, headline = len(e["variants"]) == 2, metric == HEADLINES[cell[0]]
    base, name = e["variants"][e["bases"][v]], e["variants"][v]
    samples = {x: [r[x][metric] for r in rounds] for x in e["variants"] if metric in rounds[0][x]}
    if V in show and samples:
        for x in e["variants"] if pair else [name]:
            row[heading, x if pair else "median"] = f"{statistics.median(samples[x]):.{decimals}f}"
    if C not in show or e["bases"][v] == v:
        return
    found = globals()[experiment](cell, name, metric)
    if samples:
        median, least, most = summary([(b / a - 1) * 100 for a, b in zip(samples[base], samples[name])])
        row[heading, "change %"] = f"{median:+.1f}"
        if headline:
            row[heading, "from..to"] = f"{least:+.0f}..{most:+.0f}"
    if found:
        low, high = found
        row[heading, "published"] = f"{low:+.{0 if low == round(low) else 1}f}" if low == high else f"{low:+.0f}..{high:+.0f}"
    if samples and found and headline:
        row[heading, "verdict"] = "behind" if most < low else "ahead" if least > high else "alike"


def tables(result):
    """{(experiment, workload): rows}, each row {(group, heading): text} of what stands in it."""
    made = {}
    for ran in result["experiments"]:
        e = EXPERIMENTS[ran["name"]]
        for c in ran["cells"]:
            cell = c["workload"], c["size"], c["sessions"], c["threads"]
            pair = len(e["variants"]) == 2
            for v in range(pair, len(e["variants"])):
                row = {("", "bytes"): str(cell[1]), ("", "sessions"): str(cell[2])}
                if cell[3] > 1:
                    row["", "threads"] = str(cell[3])
                if not pair:
                    row["", "variant"] = e["variants"][v]
                for metric, show in e["columns"]:
                    put_metric(row, ran["name"], e, cell, c["rounds"], v, metric or HEADLINES[cell[0]], show)
                made.setdefault((ran["name"], cell[0]), []).append(row)
            for v, sizes in c.get("buffer_sizes", {}).items():
                total = sum(sizes.values())
                row = {("", "load"): f"{cell[0]} {cell[1]} B x {cell[2]}", ("", "variant"): v}
                for size, count in sizes.items():
                    if int(size) < 4000:
                        row["bytes of a buffer: share in %", size] = f"{100 * count / total:.1f}"
                row["bytes of a buffer: share in %", "others"] = f"{100 * 2 / total:.1f}"
                made.setdefault((ran["name"], "Buffers"), []).append(row)
    return made


class Page(html.parser.HTMLParser):
    """The tables of a page, as tables() has them; besides, how many charts each section has."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.charts = {}, {}
        self.section = self.work = self.text = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "section":
            self.section = attrs["id"]
        elif tag == "svg":
            self.charts[self.section] = self.charts.get(self.section, 0) + 1
        elif tag == "table":
            self.rows = []
        elif tag == "tr":
            self.cells = []
        elif tag in ("th", "td", "h3"):
            self.text, self.span = "", int(attrs.get("colspan", 1))
        elif tag == "small" and self.text is not None:
            self.work, self.text = self.text.strip(), None

    def handle_data(self, data):
        if self.text is not None:
            self.text += data

    def handle_endtag(self, tag):
        if tag in ("th", "td"):
            self.cells += [self.text] * self.span
        elif tag == "h3" and self.text is not None:
            self.work = self.text
        elif tag == "tr":
            self.rows.append(self.cells)
        elif tag == "table" and self.section:
            groups, headings, *rows = self.rows
            self.tables[self.section, self.work] = [
                {(g, h): text for g, h, text in zip(groups, headings, row, strict=True) if text} for row in rows]
        if tag in ("th", "td", "h3"):
            self.text = None
