#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""plot DIR FILE...: draws rows of mmbench --csv, and of bench/peers-*.csv, as pictures (SVG) in DIR, by matplotlib. Run by mmbench --plot.

Every file is read before a picture is written, and a picture replaces an older one only when it is complete. Of two rows for one
allocator and place the first is drawn. Exit status: 1 if a file cannot be read or holds nothing to draw, 2 if a picture cannot be written.
"""
import collections
import fnmatch
import math
import os
import re
import sys
import tempfile
import textwrap

BYTES, POWERS, THREADS = "bytes of each request", "bytes of the largest requests (powers of two from 16)", "threads"
# FILE.svg draws an operation of a case by size or threads; the other of the two is fixed.
Picture = collections.namedtuple("Picture", "file case op by fixed about")
PICTURES = [Picture(f"{op}-{kind}", case, op, by, fixed, about) for kind, case, by, fixed, about in (
    ("size", "single", "size", 1000000, BYTES), ("mixed", "mixed", "size", 1000000, POWERS), ("threads", "scaling", "threads", 64, THREADS))
    for op in ("malloc", "free")]
PICTURES += [Picture(case, case, "time", "size", 8192, BYTES) for case in ("ad", "acd", "p")]
PICTURES += [Picture("write", "write", "write", "size", 1000000, "bytes of each list"), Picture("workgen", "workgen", "time", "threads", 64, THREADS),
             Picture("kdtree", "kdtree", "kdtree", "size", 1, "triangles"), Picture("join", "join", "warp", "size", 1, "tuples of each relation")]
OF = {picture[1:3]: picture for picture in PICTURES}
OURS = ("allocator", "case", "size", "threads", "op", "unit", "median", "min", "max", "status")
PEERS = ("allocator", "case", "size", "threads", "median_ms", "min_ms", "max_ms", "failed_count")
STATUSES = {"ok": "", "null": "NULL results", "corrupt": "wrong results", "crash": "crash", "hung": "no answer in time",
            "skipped": "not tried after a failure", "toolarge": "more than the heap"}
COUNTS = {0: "ok", -1: "hung", -2: "crash", -3: "skipped", -4: "toolarge"}


def fail(text, status=1):
    print(f"mmbench: {text}", file=sys.stderr)
    sys.exit(status)


class Rows:
    """times: {(case, op): {allocator: {x: (status, median, least, most)}}} in microseconds; sources and notes from comment lines."""

    def __init__(self):
        self.times, self.sources, self.notes = {}, [], []

    def read(self, path):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError as error:
            fail(f'--plot: "{path}" cannot be read: {error.strerror}')
        fields, said = None, {}
        for number, line in enumerate(lines, 1):
            where = f"{path}:{number}"
            if line.startswith("#"):
                self.comment(line, number, said)
            elif line and fields is None:
                fields = line.split(",")
                if not (set(OURS) <= set(fields) or set(PEERS) <= set(fields)):
                    fail(f'{where}: "{line[:60]}" does not name the fields; expected {",".join(OURS)} or {",".join(PEERS)} among them')
            elif line:
                values = line.split(",")
                if len(values) != len(fields):
                    fail(f"{where}: {len(values)} fields; expected {len(fields)}")
                self.row(where, dict(zip(fields, values)))
        if fields is None:
            fail(f'--plot: "{path}" has no rows; expected a file of mmbench --csv')
        self.sources.append((said.get("GPU", ""), said.get("driver", ""), said.get("date", "")))

    def comment(self, line, number, said):
        date = re.search(r", (\d{4}-\d\d-\d\d)", line)
        if number == 1 and date:
            said["date"] = date[1]
        match = re.match(r"# (GPU|driver|note): (.*)", line)
        if match and match[1] == "note" and ": " in match[2]:
            self.notes.append(match[2].split(": ", 1))
        elif match and match[1] != "note":
            said[match[1]] = match[2]

    def row(self, where, row):
        def number(field, least, of=int, form=r"\d+"):
            text = row[field]
            if not re.fullmatch(form, text) or of(text) < least:
                fail(f'{where}: {field}: "{text}"; expected a number{"" if least < 1 else " above 0"}')
            return of(text)

        def time(field):
            return number(field, 0, float, r"[0-9.]+(e[-+]?\d+)?") if row[field] not in ("", "nan") else math.nan

        is_peers = "median_ms" in row
        if is_peers:
            case, _, op = row["case"].partition("_")
            failed = number("failed_count", -4, int, r"-?\d+")
            status = "null" if failed > 0 else COUNTS[failed]
        else:
            case, op, status = row["case"], row["op"], row["status"]
            if status not in STATUSES:
                fail(f'{where}: status: "{status}"; expected {", ".join(STATUSES)}')
        picture = OF.get((case, op))
        if picture is None:
            return
        size, threads = number("size", 1), number("threads", 1)
        if not is_peers and row["unit"] != "us":
            fail(f'{where}: unit: "{row["unit"]}"; expected us')
        median, least, most = (time(field + "_ms" * is_peers) * (1000 if is_peers else 1) for field in ("median", "min", "max"))
        if status == "ok" and not 1e-6 <= median <= 1e15:
            fail(f'{where}: median: "{row["median_ms" if is_peers else "median"]}"; expected a time where nothing failed')
        if least > median or median > most:
            fail(f"{where}: the median is not between the least and the most")
        name = {"cuda": "builtin"}.get(row["allocator"], row["allocator"])
        if not name:
            fail(f'{where}: allocator: ""; expected a name')
        x, fixed = (threads, size) if picture.by == "threads" else (size, threads)
        if fixed != picture.fixed:
            return
        curves = self.times.setdefault((case, op), {})
        curves.setdefault(name, {}).setdefault(x, (status, median, least, most))
        floor = time("floor") if name == "mm" and row.get("floor") and picture.file == case else 0
        if floor > 0:  # its own: memory from a bump pointer or a prefix sum
            curves.setdefault("floor", {}).setdefault(x, ("ok", floor, floor, floor))


def size_text(n):
    for unit in ("", "K", "M", "G"):
        if n < 1024 or n % 1024:
            return f"{n}{unit}"
        n //= 1024
    return f"{n}T"


def draw(pyplot, rows, picture):
    """Returns the picture, or None if no time is ok."""
    curves = rows.times.get((picture.case, picture.op), {})
    ok = {name: sorted((x, t) for x, t in points.items() if t[0] == "ok") for name, points in curves.items()}
    names = sorted((name for name in ok if ok[name]), key=lambda name: -ok[name][-1][1][1])
    if not names:
        return None
    figure, axes = pyplot.subplots(figsize=(10, 6 + 0.15 * len(names)), layout="constrained")
    families = sorted({name.split("_")[0] for name in curves} - {"mm", "builtin", "floor"})
    for name in sorted(names, key=lambda name: (name == "mm", name == "builtin")):  # mm's line on top
        family = name.split("_")[0]
        member = sorted(other for other in curves if other.split("_")[0] == family).index(name)
        colour = {"mm": "#0b5fff", "builtin": "#000000", "floor": "#888888"}.get(name) or pyplot.get_cmap("tab10")(families.index(family) % 10)
        style = dict(color=colour, linestyle=("-", "--", ":", "-.")[member % 4], marker="osv^D*"[member % 6], markersize=4,
                     linewidth=3 if name == "mm" else 1.5)
        note = "" if not any(fnmatch.fnmatch(name, pattern) for pattern, _ in rows.notes) else " †"
        medians = [t[1] if t[0] == "ok" else math.nan for _, t in sorted(curves[name].items())]  # a failure is a gap
        axes.plot(sorted(curves[name]), medians, label=name.replace("builtin", "builtin (CUDA)") + note, gid=f"line-{name}", **style)
        if name in ("mm", "builtin"):
            spread = [(x, t) for x, t in ok[name] if not math.isnan(t[2] + t[3])]
            axes.vlines([x for x, _ in spread], [t[2] for _, t in spread], [t[3] for _, t in spread], color=colour, linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda x, _: size_text(round(x)))
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g} µs" if y < 1e3 else f"{y / 1e3:g} ms" if y < 1e6 else f"{y / 1e6:g} s")
    axes.grid(True, which="major", color="#cccccc")
    axes.set_xlabel(picture.about + " (K = 1,024)")
    axes.set_ylabel("time of the kernel: median; least to most, of mm and builtin")
    fixed = f"{picture.fixed:,} " + ("bytes by each thread" if picture.by == "threads" else "threads")
    title = f"{picture.op}, {fixed}" if picture.file != picture.case else f"{picture.case}, {fixed}" if picture.fixed > 1 else picture.case
    machines = {}
    for gpu, driver, date in rows.sources:
        machines.setdefault(", ".join(filter(None, (gpu, driver and "driver " + driver))), []).append(date)
    axes.set_title(f"{title}\n" + "\n".join(", ".join(filter(None, [machine, *dates])) for machine, dates in machines.items()))
    handles = {line.get_gid(): line for line in axes.get_lines()}
    axes.legend(handles=[handles[f"line-{name}"] for name in names], loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, fontsize="small")
    failed = [f"{name}, {size_text(x)}: {STATUSES[t[0]]}" for name in sorted(curves) for x, t in sorted(curves[name].items()) if t[0] not in ("ok", "skipped")]
    below = ["Failed: " + "; ".join(failed)] if failed else []
    below += [f"† {pattern}: {text}" for pattern, text in rows.notes if any(fnmatch.fnmatch(name, pattern) for name in names)]
    if below:
        figure.supxlabel("\n".join(textwrap.fill(line, 170) for line in below), fontsize="x-small", x=0.01, ha="left")
    return figure


def main(directory, files):
    rows = Rows()
    for path in files:
        rows.read(path)
    try:
        import matplotlib
        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError:
        fail("--plot needs Python's matplotlib; expected python3-matplotlib (Debian, Ubuntu) or pip install matplotlib", 2)
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mm"})
    pictures = [(picture.file + ".svg", draw(pyplot, rows, picture)) for picture in PICTURES]
    if not any(figure for _, figure in pictures):
        fail("--plot: nothing to draw; expected times of the cases " + ", ".join(sorted({picture.case for picture in PICTURES})))
    umask = os.umask(0)
    os.umask(umask)
    try:
        os.mkdir(directory)
    except FileExistsError:
        pass
    except OSError as error:
        fail(f'--plot: "{directory}" cannot be written: {error.strerror}', 2)
    for file, figure in pictures:
        path, temporary = os.path.join(directory, file), None
        if figure is None:
            continue
        try:
            handle, temporary = tempfile.mkstemp(dir=directory)
            with os.fdopen(handle, "wb") as to:
                figure.savefig(to, format="svg", metadata={"Date": None})
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, path)
        except OSError as error:
            if temporary:
                os.unlink(temporary)
            fail(f'--plot: "{path}" cannot be written: {error.strerror}', 2)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
