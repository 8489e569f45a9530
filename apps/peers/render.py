#!/usr/bin/env python3
"""Tables in Markdown and charts in SVG of the rows that `benchmark COMMAND --json FILE` writes.

  render.py compare.json                                    prints the tables
  render.py compare.json --page docs/benchmarks.md          puts them between <!-- benchmark compare --> and <!-- end -->
  render.py compare.json --plot docs/compare.svg            draws the chart

It needs Python's standard library only. The program has a copy inside: `benchmark show` and --plot run it.
"""
import argparse, html, json, math, os, pathlib


def digits(value):
    """Four significant digits, and all of those before the point."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def spread(timing, unit=1):
    middle, low, high = (digits(unit * timing[key]) for key in ("median", "min", "max"))
    return f"{middle} ({low} - {high})"


median = lambda timing: digits(timing["median"])
net = lambda row: f"{row['net']} {row['batch']}"
error = lambda row: f"{row['error']:.1e}"
geometric_mean = lambda rows: math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
of_roofline = lambda row: f"{100 * row['roofline_ms'] / row['ms']['median']:.0f}"


def net_errors(row):
    return f"{', '.join(error(row['check'][role]) for role in ('fprop', 'bprop', 'update'))}; {row['check']['distance']:.1e}"


def best_peer(metric):
    """Two cells: nixie's median and the best peer's, and their ratio."""
    def times(row):
        best = row["best_peer"].get(metric)
        return median(row[metric]) + (f", {median(best)} {best['peer']}" if best else "")
    return times, lambda row: f"**{row['best_peer'][metric]['ratio']:.2f}**" if metric in row["best_peer"] else "no peer"


def beside(row):
    """The peer's microseconds and its time over nixie's."""
    peer = row["peer"].get("ms")
    return f"{digits(1e3 * peer['median'])} ({peer['median'] / row['ms']['median']:.2f})" if peer else ""


# A table's columns: a heading, and the key of a row or a function that gives the cell.

NETS = [("net, batch", net), ("precision", "precision"), ("fprop ms (min - max)", lambda r: spread(r["fprop_ms"])),
        ("bprop ms", lambda r: spread(r["bprop_ms"])), ("total ms", lambda r: spread(r["total_ms"])),
        ("TFLOP/s counted, executed", lambda r: f"{digits(r['counted_tflops'])}, {digits(r['executed_tflops'])}"),
        ("% of ceiling", lambda r: f"{r['percent_of_ceiling']:.0f}"), ("training step ms", lambda r: spread(r["train_ms"])),
        ("with dynamic scale", lambda r: median(r["train_dynamic_ms"]) if "train_dynamic_ms" in r else ""),
        ("its MB", lambda r: digits(r["train_mb"]) if "train_mb" in r else ""),
        ("errors: fprop, bprop, update; whole", net_errors)]
RATIOS = [("net, batch", net), ("precision", "precision")] + [
    column for heading, metric in (("fprop ms: nixie, best peer", "fprop_ms"), ("fprop + bprop ms", "total_ms"),
                                   ("training step ms", "train_ms"))
    for column in zip((heading, "ratio"), best_peer(metric))]
PEERS = [("net, batch", net), ("precision", "precision"), ("peer", "peer"), ("fprop ms", lambda r: spread(r["fprop_ms"])),
         ("fprop + bprop ms", lambda r: spread(r["total_ms"])), ("training step ms", lambda r: spread(r["train_ms"])),
         ("its MB", lambda r: digits(r["peak_mb"]) if r.get("peak_mb") else "")]
COLUMNS = {
    "layers": [("net", "net"), ("layer", "layer"), ("role", "role"), ("precision", "precision"),
               ("us (min - max)", lambda r: spread(r["ms"], 1e3)), ("TFLOP/s", lambda r: digits(r["tflops"])),
               ("GB/s", lambda r: digits(r["gigabytes_per_second"])), ("% of roofline", of_roofline),
               ("cuBLAS, cuDNN us (ratio)", beside), ("error", error)],
    "gemm": [("m x n x k", lambda r: f"{r['m']} x {r['n']} x {r['k']}"), ("layout", "layout"),
             ("alpha, beta", lambda r: f"{r['alpha']:g}, {r['beta']:g}"), ("precision", "precision"),
             ("us (min - max)", lambda r: spread(r["ms"], 1e3)), ("TFLOP/s", lambda r: digits(r["tflops"])),
             ("% of roofline", of_roofline), ("cuBLAS us (ratio)", beside), ("error", error)],
    "arrays": [("workload", "workload"), ("elements", "elements"), ("ms (min - max)", lambda r: spread(r["ms"])),
               ("GB/s", lambda r: digits(r["gigabytes_per_second"])),
               ("TFLOP/s", lambda r: digits(r["tflops"]) if r["tflops"] else ""), ("error", error),
               ("CPU ms", lambda r: digits(r["cpu_ms"]) if r.get("cpu_ms") else ""),
               ("CPU ms / ms", lambda r: f"{r['cpu_ms'] / r['ms']['median']:.2f}" if r.get("cpu_ms") else "")],
    "scaling": [("what grows", "grows"), ("batch", "batch"), ("depth", "depth"), ("side", "side"),
                ("fprop ms", lambda r: median(r["fprop_ms"])), ("fprop + bprop ms", lambda r: median(r["total_ms"])),
                ("training step ms", lambda r: median(r["train_ms"])), ("TFLOP/s", lambda r: digits(r["counted_tflops"]))],
    "data": [("data", "data"), ("sample", "sample"), ("threads", "threads"), ("batch", "batch"),
             ("images/s", lambda r: f"{r['images_per_second']:.0f}")],
    "steps": [("net", "net"), ("batch", "batch"), ("parameters", "parameters"), ("steps", "runs"),
              ("ms (min - max)", lambda r: f"{digits(r['median_ms'])} ({digits(r['min_ms'])} - {digits(r['max_ms'])})"),
              ("images/s", lambda r: f"{r['images_per_second']:.0f}"), ("peak MB", lambda r: digits(r["peak_mb"])),
              ("loss", lambda r: f"{r['first_loss']:.3f} to {r['lowest_loss']:.3f}")],
    "numerics": [("precision", "precision"), ("operands", "distribution"), ("largest error", lambda r: digits(r["largest"])),
                 ("where", "where"), ("median", lambda r: digits(r["median"]))],
    "sweep": [("layer", "layer"), ("role", "role"), ("us", lambda r: f"{1e3 * r['ms']['median']:.1f}"),
              ("peer us", lambda r: f"{1e3 * r['peer']['ms']['median']:.1f}"), ("ratio", lambda r: f"{r['ratio']:.2f}"),
              ("algorithm", "algorithm")]}
RATIO = "\nratio: {} time over nixie's; above 1 nixie is faster.\n"


def table(columns, rows):
    lines = [[heading for heading, _ in columns], ["---"] * len(columns)] + [
        [str(cell(row) if callable(cell) else row[cell]) for _, cell in columns] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def compare_tables(report, brief):
    rows = report["rows"]
    ratios = table(RATIOS, rows) + RATIO.format("the best peer's") + "\n"
    if brief:
        return ratios
    peers = [dict(peer, net=row["net"], batch=row["batch"], precision=row["precision"]) for row in rows for peer in row["peers"]]
    left_out = "".join(f"\nLeft out: {row['net']} {row['precision']}: {each['peer']}: {each['why']}.\n"
                       for row in rows for each in row["left_out"])
    return ratios + "nixie:\n\n" + table(NETS, rows) + "\nThe peers:\n\n" + table(PEERS, peers) + left_out + "\n"


def sweep_tables(report):
    """Of the rows that have a peer: means and quantiles of the ratios, and the ten worst."""
    rows = sorted((row for row in report["rows"] if "ratio" in row), key=lambda row: row["ratio"])
    if not rows:
        return f"{len(report['rows'])} layers, no peer beside them.\n"
    at_least = lambda bound: f"{100 * sum(row['ratio'] >= bound for row in rows) / len(rows):.1f} % at least {bound}"
    quantiles = ", ".join(f"{part}% {rows[round(part / 100 * (len(rows) - 1))]['ratio']:.2f}" for part in (0, 5, 25, 50, 75, 95, 100))
    groups = sorted(grouped((f"{row['role']} {row['kind']}", row) for row in rows).items())
    weighted = lambda side, rows: sum(row.get("count", 1) * side(row) for row in rows)
    ratio_of = lambda rows: weighted(lambda row: row["peer"]["ms"]["median"], rows) / weighted(lambda row: row["ms"]["median"], rows)
    sources = sorted(grouped((row["source"], row) for row in rows if "source" in row).items(), key=lambda s: ratio_of(s[1]))
    by_source = ("\nThe peer's time over nixie's, each row times its count:\n\n" +
                 table([("source", lambda s: s[0]), ("rows", lambda s: len(s[1])), ("ratio", lambda s: f"{ratio_of(s[1]):.2f}")], sources) +
                 f"\nGeometric mean of {len(sources)} sources **{math.exp(sum(math.log(ratio_of(s[1])) for s in sources) / len(sources)):.3f}**, "
                 f"{sum(ratio_of(s[1]) < 1 for s in sources)} below 1.\n") if sources else ""
    return (f"{len(rows)} layers beside the peer ({len(report['rows']) - len(rows)} without it): geometric mean of the ratio "
            f"**{geometric_mean(rows):.3f}**; quantiles {quantiles}; {at_least(0.9)}, {at_least(0.6)}.\n\n" +
            table([("role, groups", lambda g: g[0]), ("layers", lambda g: len(g[1])),
                   ("geometric mean", lambda g: f"{geometric_mean(g[1]):.2f}"),
                   ("under 0.9", lambda g: f"{100 * sum(row['ratio'] < 0.9 for row in g[1]) / len(g[1]):.0f} %")], groups) +
            by_source + "\nThe ten worst:\n\n" + table(COLUMNS["sweep"], rows[:10]) + RATIO.format("the peer's"))


def facts(report):
    """When, where and by what the rows were measured, and the rates that they are compared with."""
    date = report["date"]
    parts = [f"{date[:10]}, {date[11:16]} UTC", f"commit {report['commit']}"]
    if "device" in report:
        after = f" ({report['clocks_after']['sm_clock']} after)" if "clocks_after" in report else ""
        parts.append(f"one {report['device']}, driver {report['driver']}, SM clock {report['sm_clock']}{after}")
    parts.append(", ".join(report[key] for key in ("processor", "program") if key in report))
    text = "; ".join(parts + [report[key] for key in ("program_torch", "program_jax", "peer") if key in report]) + ".\n\n"
    if "copy_gigabytes_per_second" in report:
        rates = [f"; {key[15:]} {digits(value)} TFLOP/s" for key, value in report.items() if key.startswith("ceiling_tflops_")]
        text += f"Copy {digits(report['copy_gigabytes_per_second'])} GB/s{''.join(rates)}.\n\n"
    return text


def markdown(report, brief=False):
    command = report["command"]
    if command == "compare":
        tables = compare_tables(report, brief)
    elif command == "sweep":
        tables = sweep_tables(report)
    else:
        tables = table(COLUMNS.get(command, NETS), report["rows"])  # a configuration's rows are those of nets
    return facts(report) + tables


# Charts. The colours are readable on white and on black and differ for the colour-blind (after Okabe and Ito).

WIDTH, LETTER, TOP, MIDDLE, END = 880, 8.2, 68, 'text-anchor="middle"', 'text-anchor="end"'
STYLE = """<style>
svg { background: #fff; color: #1f2328; font: 15px system-ui, sans-serif; fill: currentColor }
.quiet { fill: #59636e } .grid { stroke: #d1d9e0 } .line { fill: none; stroke-width: 2.5 }
.c0 { --c: #0072b2 } .c1 { --c: #d55e00 } .c2 { --c: #008060 } .c3 { --c: #a5488c } .c4 { --c: #8a6500 } .c5 { --c: #59636e }
.mark { fill: var(--c) } .line { stroke: var(--c) }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; color: #e6edf3 } .quiet { fill: #9198a1 } .grid { stroke: #30363d }
  .c0 { --c: #56b4e9 } .c1 { --c: #ff8c42 } .c2 { --c: #2cc295 } .c3 { --c: #e08cc4 } .c4 { --c: #e6c229 } .c5 { --c: #9198a1 }
}
</style>
"""
COLORS, SHAPES = 6, ["M-4.5,0a4.5,4.5 0 1 0 9,0a4.5,4.5 0 1 0 -9,0", "M-4,-4h8v8h-8z", "M0,-5.5L5.5,4.5H-5.5z",
                     "M0,-6L6,0L0,6L-6,0z", "M-5,-2h3v-3h4v3h3v4h-3v3h-4v-3h-3z"]


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}"{" " + more if more else ""}>{html.escape(words)}</text>\n'


def mark(x, y, color, shape, title=""):
    inner = f"<title>{html.escape(title)}</title>" if title else ""
    return f'<path class="mark c{color % COLORS}" transform="translate({x:.1f},{y:.1f})" d="{SHAPES[shape % len(SHAPES)]}">{inner}</path>\n'


def legend(series, y):
    """The series' names in as many lines as they need, each behind its look; and where the last line ends."""
    x, out = 20, ""
    for name, color, shape, *_ in series:
        width = 36 + LETTER * len(name)
        if x + width > WIDTH:
            x, y = 20, y + 22
        out += (f'<path class="line c{color % COLORS}" d="M{x - 2:.1f},{y - 5:.1f}h16"/>\n' if shape is None else
                mark(x + 6, y - 5, color, shape)) + text(x + 19, y, name)
        x += width
    return out, y + 16


def svg(title, subtitle, body, height):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" '
            f'role="img" aria-label="{html.escape(title)}">\n{STYLE}' + text(20, 30, title, 'font-size="20" font-weight="600"') +
            text(20, 52, subtitle, 'class="quiet"') + body + "</svg>\n")


def number(value):
    """1, 20, 1000, 10⁴, 5·10⁻⁴."""
    if not value or 1e-3 <= value < 1e4:
        return f"{value:g}"
    factor, power = f"{value:.0e}".split("e")
    return (factor + "·10").replace("1·", "") + str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def upright(marks, top, bottom):
    """Lines at (place, value), the values under them."""
    return "".join(f'<path class="grid" d="M{x:.1f},{top:.1f}V{bottom:.1f}"/>\n' + text(x, bottom + 22, number(value), MIDDLE)
                   for x, value in marks)


def bars(title, subtitle, unit, groups, notes={}):
    """Horizontal bars: groups is {name: {series: value}}; notes gives the text behind a bar its rest."""
    names = list(dict.fromkeys(series for values in groups.values() for series in values))
    left, right, bar, gap = 28 + LETTER * max(map(len, groups), default=0), WIDTH - 120, 17, 12
    most = max((value for values in groups.values() for value in values.values()), default=1) or 1
    step = 10 ** math.floor(math.log10(most))
    step = next(step * part for part in (0.2, 0.5, 1, 2) if most / (step * part) <= 6)
    body, first = legend([(name, i, 1) for i, name in enumerate(names)], TOP + 10)
    y = first
    for group, values in groups.items():
        body += text(left - 10, y + bar * len(values) / 2 + 5, group, END)
        for series, value in values.items():
            words = f"{value:.3g}{notes.get((group, series), '')}"
            size, title_of_bar = (right - left) * value / most, html.escape(f"{group}, {series}: {words}")
            body += (f'<rect class="mark c{names.index(series) % COLORS}" x="{left:.1f}" y="{y:.1f}" width="{size:.1f}" '
                     f'height="{bar - 2}"><title>{title_of_bar}</title></rect>\n') + text(left + size + 6, y + 13, words)
            y += bar
        y += gap
    marks = [(left + (right - left) * i * step / most, i * step) for i in range(int(most / step) + 1)]
    return svg(title, subtitle, upright(marks, first - 6, y - gap + 6) + body + text((left + right) / 2, y + 38, unit, MIDDLE), y + 52)


def log_axis(values, start, end):
    """A function from value to place on a logarithmic axis that begins and ends at 1, 2 or 5 times a power of ten, and its marks."""
    steps = [part * 10.0 ** power for power in range(-30, 30) for part in (1, 2, 5)]
    low = max(step for step in steps if step <= min(values))
    high = min(step for step in steps if step >= max(values) and step > low)
    decades = math.log10(high / low)
    marks = [step for step in steps if low <= step <= high and (decades < 2.5 or round(math.log10(step), 9) % (1 + decades // 8) == 0)]
    return lambda value: start + (end - start) * math.log10(value / low) / decades, marks


def plot(title, subtitle, x_label, y_label, series):
    """Points over two logarithmic axes: series is [(name, color, shape or None, whether a line joins them, points)]."""
    series = [(*look, [p for p in points if p[0] > 0 and p[1] > 0]) for *look, points in series]
    shown = [p for *_, points in series for p in points] or [(1, 1), (10, 10)]
    body, top = legend(series, TOP + 10)
    left, right, bottom = 78, WIDTH - 24, top + 340
    x, x_marks = log_axis([p[0] for p in shown], left, right)
    y, y_marks = log_axis([p[1] for p in shown], bottom, top)
    grid = "".join(f'<path class="grid" d="M{left},{y(at):.1f}H{right}"/>\n' + text(left - 8, y(at) + 5, number(at), END) for at in y_marks)
    grid += upright([(x(at), at) for at in x_marks], top, bottom)
    for name, color, shape, joined, points in series:
        if joined:
            body += f'<path class="line c{color % COLORS}" d="M{" ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)}"/>\n'
        if shape is not None:
            body += "".join(mark(x(a), y(b), color, shape, f"{name}: {digits(b)} at {digits(a)}") for a, b in points)
    middle = (top + bottom) / 2
    labels = text((left + right) / 2, bottom + 48, x_label, MIDDLE) + text(
        22, middle, y_label, f'{MIDDLE} transform="rotate(-90 22 {middle:.1f})"')
    return svg(title, subtitle, grid + body + labels, bottom + 64)


def grouped(pairs):
    """Lists of points by name, in the order of their first."""
    groups = {}
    for name, point in pairs:
        groups.setdefault(name, []).append(point)
    return groups


looks = lambda groups, joined: [(name, i, i, joined, points) for i, (name, points) in enumerate(groups.items())]


def compare_chart(report, subtitle):
    rows = report["rows"]
    precisions = sorted({row["precision"] for row in rows})
    groups, notes = {}, {}
    for row in rows:
        group = row["net"] if len(precisions) == 1 else f"{row['net']} {row['precision']}"
        groups[group] = {"nixie": row["counted_gflop"] / row["total_ms"]["median"]}
        for peer in row["peers"]:
            name = "PyTorch" if peer["peer"].split()[0] == "torch" else "JAX"
            groups[group][name] = max(groups[group].get(name, 0), row["counted_gflop"] / peer["total_ms"]["median"])
        if "total_ms" in row["best_peer"]:
            notes[group, "nixie"] = f" · {row['best_peer']['total_ms']['ratio']:.2f}×"
    return bars("Forward and backward of a batch, nixie and each peer at its best", subtitle + f", {', '.join(precisions)}",
                "TFLOP/s, more is better; ×: times the speed of the best peer", groups, notes)


def nets_chart(report, subtitle):
    names = {"fprop": "fprop_ms", "bprop": "bprop_ms", "training step": "train_ms"}
    groups = {f"{net(row)} {row['precision']}": {name: row[key]["median"] for name, key in names.items()} for row in report["rows"]}
    return bars("Forward, backward and training step of a batch in nixie", subtitle, "ms, median; less is better", groups)


def arrays_chart(report, subtitle):
    lines = grouped((row["workload"] + side, (row["elements"], row["gigabytes_per_second"] * scale))
                    for row in report["rows"] if "*=" in row["workload"]
                    for side, scale in ([(" (GPU)", 1), (" (CPU)", row["ms"]["median"] / row["cpu_ms"])] if row.get("cpu_ms") else
                                        [(" (GPU)" if "device" in report else " (CPU)", 1)]))
    return plot("Bandwidth over the size of an array, in place", subtitle, "elements (fp32)", "GB/s", looks(lines, True))


def contractions(report, x):
    """Points of nixie's rows and of the peer's."""
    rows = report["rows"]
    several = len({row["precision"] for row in rows}) > 1
    name = lambda row, what: f"{row['precision']} {what}" if several else what
    own = grouped((name(row, f"nixie {row.get('role') or row['layout']}"), (x(row), row["tflops"])) for row in rows)
    peer = grouped((name(row, "PyTorch, any" + (" role" if "role" in row else " layout")),
                    (x(row), row["tflops"] * row["ms"]["median"] / row["peer"]["ms"]["median"]))
                   for row in rows if "ms" in row["peer"])
    return looks(own | peer, False)


def layers_chart(report, subtitle):
    series = contractions(report, lambda row: 1e3 * row["gflop"] / row["megabytes"])
    intensities = [point[0] for *_, points in series for point in points]
    low, high, copy = min(intensities, default=1), max(intensities, default=1), report["copy_gigabytes_per_second"] / 1e3
    for i, (key, ceiling) in enumerate(item for item in report.items() if item[0].startswith("ceiling_tflops_")):
        roof = [(low, low * copy), (ceiling / copy, ceiling), (max(high, ceiling / copy), ceiling)]
        series.append((f"{key[15:]} roofline", 5 + i, None, True, roof))
    return plot("Layers under the roofline", subtitle, "FLOP per byte that must be moved", "TFLOP/s", series)


def sweep_chart(report, subtitle):
    beside = [row for row in report["rows"] if "ratio" in row]
    rows, value = (beside, lambda r: r["ratio"]) if beside else (report["rows"], lambda r: r["gflop"] / r["ms"]["median"])
    roles, kinds = (list(dict.fromkeys(row[key] for row in rows)) for key in ("role", "kind"))
    points = grouped(((row["role"], row["kind"]), (1e9 * row["gflop"], value(row))) for row in rows)
    series = [(f"{role} {kind}", roles.index(role), kinds.index(kind), False, each) for (role, kind), each in sorted(points.items())]
    if not beside:
        return plot("Random convolution layers in nixie", subtitle, "FLOP of the layer", "TFLOP/s", series)
    series.append(("as fast as cuDNN", 5, None, True, [(1e9 * least(row["gflop"] for row in rows), 1) for least in (min, max)]))
    return plot("Random convolution layers in nixie and cuDNN", subtitle, "FLOP of the layer", "nixie, times as fast as cuDNN", series)


CHARTS = {
    "compare": compare_chart, "arrays": arrays_chart, "layers": layers_chart, "sweep": sweep_chart,
    "gemm": lambda report, subtitle: plot("Matrix products", subtitle, "FLOP of the product", "TFLOP/s",
                                          contractions(report, lambda row: 2 * row["m"] * row["n"] * row["k"])),
    "scaling": lambda report, subtitle: plot(
        "Time of a batch in nixie as a net grows", subtitle, "times the smallest", "fprop + bprop, ms",
        looks(grouped((row["grows"], (row["factor"], row["total_ms"]["median"])) for row in report["rows"]), True))}


def chart(report):
    if report["command"] in ("data", "steps", "numerics"):
        raise SystemExit(f"there is no chart of {report['command']}")
    subtitle = f"{report.get('device', report['processor'])}, {report['date'][:10]}, commit {report['commit']}"
    return CHARTS.get(report["command"], nets_chart)(report, subtitle)


def write(path, content):
    """Leaves the old file or the new one."""
    new = f"{path}.{os.getpid()}"
    pathlib.Path(new).write_text(content, encoding="utf-8")
    os.replace(new, path)


def put_into(page, name, content):
    whole = pathlib.Path(page).read_text(encoding="utf-8")
    first, last = f"<!-- benchmark {name} -->\n", "<!-- end -->"
    begin = whole.find(first)
    end = whole.find(last, begin)
    if begin < 0 or end < 0:
        raise SystemExit(f"{page}: there is no {first.strip()} with {last} after it; put both where the table shall be")
    write(page, whole[:begin + len(first)] + content + whole[end:])


def main():
    parser = argparse.ArgumentParser(description="Tables and charts of the rows that `benchmark COMMAND --json FILE` writes.")
    parser.add_argument("file", help="what --json wrote; - for the standard input")
    parser.add_argument("--page", help="a page; the tables replace what is between <!-- benchmark NAME --> and <!-- end -->")
    parser.add_argument("--name", help="NAME, by default the command that made the rows")
    parser.add_argument("--brief", action="store_true", help="of compare the ratios alone")
    parser.add_argument("--plot", help="a file for the chart, .svg; - prints it in place of the table")
    options = parser.parse_args()
    try:
        with open(0 if options.file == "-" else options.file, encoding="utf-8") as file:
            report = json.load(file)
        content = chart(report) if options.plot == "-" else markdown(report, options.brief)
        if options.page:
            put_into(options.page, options.name or report["command"], content)
        else:
            print(content, end="", file=open(1, "w", encoding="utf-8"))  # whatever the terminal's
        if options.plot not in (None, "-"):
            write(options.plot, chart(report))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise SystemExit(f"{options.file}: is no table that --json wrote; name another file")
    except OSError as fault:
        raise SystemExit(f"{fault.filename or options.file}: {fault.strerror}")


if __name__ == "__main__":
    main()
