"""Asks `forebay run` what would help loaders, for `as_found.sh`, and compares its promises with live runs of what it promises.

    what_ifs.py ask FOREBAY SCENARIO PROFILE SEED NUMBER RATE QUOTA DIRECTORY
    what_ifs.py answer PART DIRECTORY

`ask` draws NUMBER loaders that limit their job, and takes the first promise of each that can be kept here: threads, the bandwidth of the disk
(RATE [MB/s] is its throttle, 0 none), or cores (QUOTA, -1 none). It writes a plan of validation for each kind and value of a limit to
DIRECTORY, and prints `PLAN RATE QUOTA` for each. `answer` prints a row for each promise, from DIRECTORY/PLAN/points.json.
"""

import json
import os
import random
import statistics
import subprocess
import sys

from loaders import toml

THREADS, BANDWIDTH, CORES = ".threads=", ".bandwidth=", "cluster.node.cores="


def draw_loader(draw):
    threads = draw.randint(1, 4)
    decode = round(10 ** draw.uniform(1.5, 3.6))
    size = round(10 ** draw.uniform(4.3, 5.8))
    settings = {
        "job.batch": draw.choice([8, 16]),
        "job.model.step": f"{draw.choice([0.5, 2, 5])} ms",
        "dataset.samples": {"samples": 600 if size < 300_000 else 200, "sample_size": f"{size} B"},
        "job.loader": {"tf-queue": {"threads": threads, "capacity": "64 samples", "decode": f"{decode} us"}},
    }
    return f"{threads} threads: {size // 1000} kB and {decode} us", settings


def promise(forebay, scenario, profile, settings, rate, quota):
    """Returns the first promise that can be kept here, with the limits and settings that keep it; None if there is none."""
    asked = [forebay, "run", scenario, "--profile", profile, "--format", "json", "--quiet"]
    for key, value in settings.items():
        asked += ["--set", f"{key}={toml(value)}"]
    limits = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)["verdict"]["limits"]
    for limit in limits:
        change = limit["changes"][0].get("set", "")
        if len(limit["changes"]) > 1 or limit.get("after_interval") is None or limit["factor"] is None:
            continue
        if THREADS in change:
            loader = {"tf-queue": {**settings["job.loader"]["tf-queue"], "threads": int(change.rsplit("=")[-1])}}
            return limit, {**settings, "job.loader": loader}, rate, quota
        if BANDWIDTH in change and rate:
            return limit, settings, round(rate * limit["factor"], 3), quota
        if CORES in change and quota > 0 and quota * limit["factor"] <= os.cpu_count():
            # A live run keeps to the cores of its scenario.
            cores = round(quota * limit["factor"], 3)
            return limit, {**settings, "cluster.node.cores": cores}, rate, cores
    return None


def ask(forebay, scenario, profile, seed, number, rate, quota, directory):
    draw, plans, promises = random.Random(seed), {}, []
    for _ in range(10 * number):
        name, settings = draw_loader(draw)
        kept = promise(forebay, scenario, profile, settings, rate, quota)
        if kept is None:
            continue
        limit, changed, new_rate, new_quota = kept
        name = f"{name}: {limit['changes'][0]['set']}"
        promises.append({"name": name, "after": limit["after"], "interval": limit["after_interval"], "batch": settings["job.batch"]})
        plans.setdefault((new_rate, new_quota), []).append((name, changed))
        if len(promises) == number:
            break
    with open(f"{directory}/promises.json", "w") as file:
        json.dump(promises, file)
    for index, ((new_rate, new_quota), points) in enumerate(plans.items()):
        with open(f"{directory}/{index}.toml", "w") as file:
            print(f"scenario = {json.dumps(scenario)}\nrepetitions = 3\nnoise_floor = 1.0\nretries = 0\npredictions = 2", file=file)
            for name, settings in points:
                print(f'\n[[point]]\nname = {json.dumps(name)}\nuse = "held-out"\n[point.set]', file=file)
                for key, value in settings.items():
                    print(f"{json.dumps(key)} = {toml(value)}", file=file)
        print(index, new_rate, new_quota)


def answer(part, directory):
    promises = {of["name"]: of for of in json.load(open(f"{directory}/promises.json"))}
    for plan in sorted(name for name in os.listdir(directory) if os.path.exists(f"{directory}/{name}/points.json")):
        for point in json.load(open(f"{directory}/{plan}/points.json")):
            of, name = promises[point["name"]], point["name"].replace(",", " with")
            truth = of["batch"] / statistics.median(run["samples_per_second"] for run in point["runs"])
            low, high = of["interval"]
            print(part, "promised", name, "s", f"{truth:.5g}", f"{of['after']:.5g}", f"{of['after'] / truth - 1:+.4f}", sep=",")
            print(part, "kept", name, "1", 1, int(low <= truth <= high), f"{(high - low) / 2 / of['after']:+.4f}", sep=",")


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(*sys.argv[2:5], sys.argv[5], int(sys.argv[6]), float(sys.argv[7]), float(sys.argv[8]), sys.argv[9])
    else:
        answer(*sys.argv[2:4])
