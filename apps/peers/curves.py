#!/usr/bin/env python3
"""The test error of several runs, epoch by epoch, as a chart in SVG: one line for each label, the mean over its runs.

  curves.py --plot cifar10.svg --title "CIFAR-10" fp32=runs/a,runs/b "bf16, nearest=runs/c,runs/d"

A run is a folder that the trainer wrote. It needs Python's standard library only.
"""
import argparse, csv, pathlib
from render import plot, write


def errors(run):
    """The test error in percent by epoch."""
    path = pathlib.Path(run) / "metrics.csv"
    try:
        with open(path, encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["split"] == "test"]
        return {int(row["epoch"]): 100 - 100 * float(row["accuracy"]) for row in rows}
    except OSError as fault:
        raise SystemExit(f"{path}: {fault.strerror}")
    except (KeyError, TypeError, ValueError):
        raise SystemExit(f"{path}: has no column of test accuracies by epoch; name the run of a classifier")


def mean(runs):
    """Points (epoch, error) of the epochs that all runs have."""
    tables = [errors(run) for run in runs]
    shared = sorted(set.intersection(*map(set, tables)))
    return [(epoch, sum(table[epoch] for table in tables) / len(tables)) for epoch in shared]


def main():
    parser = argparse.ArgumentParser(description="The mean test error of runs, epoch by epoch, as a chart.")
    parser.add_argument("--title", required=True)
    parser.add_argument("--plot", required=True, help="the file to write, .svg")
    parser.add_argument("runs", nargs="+", metavar="LABEL=RUN,RUN...", help="a line's label, and the folders of its runs")
    options = parser.parse_args()
    lines = [line.partition("=") for line in options.runs]
    for label, _, runs in lines:
        if not runs:
            parser.error(f"{label}: is no LABEL=RUN,RUN...")
    series = [(label, i, i, True, mean(runs.split(","))) for i, (label, _, runs) in enumerate(lines)]
    counts = " or ".join(map(str, sorted({len(runs.split(",")) for _, _, runs in lines})))
    write(options.plot, plot(options.title, f"test error, mean of {counts} runs", "epoch", "test error, %", series))


if __name__ == "__main__":
    main()
