"""Prints rows of `as_found.sh` for the points of a validation.

    points.py PART POINTS
"""

import json
import statistics
import sys


# Causes of stalls by what would have to be bought.
KINDS = {"storage": ["open", "latency", "transfer"], "cores": ["decode", "cpu-wait"]}


def cause(run):
    """Returns the largest kind of causes of stalls, or `compute` if accelerators wait for less than a tenth of the time."""
    if run["stall"] < 0.1:
        return "compute"
    return max(KINDS, key=lambda kind: sum(run["causes"].get(name, 0.0) for name in KINDS[kind]))


def main(part, path):
    rate = "samples_per_second"
    for point in json.load(open(path)):
        name = point["name"].replace(",", " with")
        runs = sorted(point["runs"], key=lambda run: run[rate])
        truth, predicted = statistics.median(run[rate] for run in runs), point["predicted"]["median"]
        low, high = point["predicted"]["interval"]
        print(part, "predicted", name, "samples/s", f"{truth:.5g}", f"{predicted[rate]:.5g}", f"{predicted[rate] / truth - 1:+.4f}", sep=",")
        print(part, "within", name, "1", 1, int(low <= truth <= high), f"{(high - low) / 2 / predicted[rate]:+.4f}", sep=",")
        same = cause(runs[len(runs) // 2]) == cause(predicted)
        print(part, "cause", f"{name} ({cause(predicted)})", "1", 1, int(same), f"{int(same) - 1:+.4f}", sep=",")


if __name__ == "__main__":
    main(*sys.argv[1:3])
