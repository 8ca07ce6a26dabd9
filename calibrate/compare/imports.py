"""Imports all files of a folder with `forebay import`, and compares the rows with those of a reader of its own.

    cargo build && python3 calibrate/compare/imports.py FOLDER [--forebay target/debug/forebay] [--verbose]

Any files may lie in the folder: outputs of nccl-tests, OSU and Intel MPI Benchmarks, DLIO's YAML, traces of PyTorch's profiler;
others are counted and left alone. For each kind it prints how many files were accepted, why others were refused, and how many
rows of accepted files were compared: rows of benchmarks, values of a DLIO workload, steps of a trace. Rows that only one of the
two readers has, or whose sizes or times differ, are listed, and the script fails. Its own reader of benchmarks knows the printed
columns and nothing else: neither labels, nor groups, nor versions. DLIO's values are compared where PyYAML is installed.
"""
import argparse
import collections
import gzip
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

try:
    import yaml
except ImportError:
    yaml = None

NUMBER = r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
# Beginning of a row after any label: the end of a row is what matters, and labels come before.
NCCL_ROW = re.compile(rf"(\d+)\s+(\d+)\s+([a-z]\w*\d*)\s+(?:([a-z]+)\s+)?(?:(-?\d+)\s+)?((?:{NUMBER}\s+){{3}}\S+)((?:\s+{NUMBER}){{3}}\s+\S+)?\s*$")


def text_of(path):
    """Returns the text of a file, which may be UTF-16."""
    data = path.read_bytes()[:64 << 20]
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace")


def kind_of(path):
    """Returns the importer for a file; None for other files."""
    if path.suffix == ".gz" or path.suffix == ".json":
        opened = gzip.open if path.suffix == ".gz" else open
        try:
            with opened(path, "rb") as file:
                start = file.read(1 << 16)
        except OSError:
            return None
        if b'"traceEvents"' in start or b'"ph"' in start:
            return "kineto"
        return "nccl-tests" if b'"out_of_place"' in start else None
    text = text_of(path)
    if path.suffix in (".yaml", ".yml"):
        sections = ("dataset:", "reader:", "train:", "workflow:", "checkpoint:")
        return "dlio" if sum(section in text for section in sections) > 1 else None
    if re.search(r"size\s+count\s+type.*algbw\s+busbw", text):
        return "nccl-tests"
    if re.search(r"OSU (MPI|One Sided|NCCL|OpenSHMEM|UPC).* Test", text):
        return "osu"
    return "imb" if re.search(r"# ?Benchmarking \w+", text) and "#bytes" in text else None


def nccl_rows(text):
    """Returns size and times of each row of nccl-tests [B, us]."""
    rows = []
    for line in text.splitlines():
        line = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).rstrip()
        line = re.sub(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", "", line)
        found = NCCL_ROW.search(line)
        if not found or "#" in line[:found.start()].split(":")[-1]:
            continue
        for half in (found[6], found[7]):
            if half:
                rows.append((float(found[1]), float(half.split()[0])))
    return rows


def osu_rows(text):
    """Returns printed size and time of each row of OSU's tables of latency, blocking and two-sided [B, us]."""
    rows, time = [], None
    for line in text.splitlines():
        line = line.strip()
        title = re.search(r"OSU (.*?)\s+Test", line)
        if title:
            name = re.sub(r"^(MPI|NCCL)(-\w+)? ", "", title[1])
            known = ("Latency", "Allreduce", "Allgather", "Alltoall", "Broadcast", "Bcast", "Reduce", "Reduce_scatter",
                     "Gather", "Scatter", "All-to-All Personalized Exchange")
            plain = name if name == "Latency" else re.sub(r" Latency$", "", name)
            latency = name.endswith("Latency") and re.match(r"(MPI|NCCL)(-\w+)? ", title[1])
            time = -1 if latency and plain in known else None
        elif time is not None and re.match(r"#?\s*Size\s", line):
            names = [name.strip() for name in re.findall(r"Size|Iterations|Validation|[A-Z][^()]*?\([a-zA-Z/]+\)", line)]
            order = [index for begin in ("Max", "Avg", "Latency") for index, name in enumerate(names) if name.startswith(begin)]
            time = order[0] if order else None
        elif time is not None and time > 0 and re.match(rf"{NUMBER}(\s+{NUMBER})+(\s+Pass)?$", line):
            words = line.split()
            rows.append((float(words[0]), float(words[time])))
    return rows


def imb_rows(text):
    """Returns printed size and time of each row of IMB's tables that forebay reads [B, us]."""
    rows, time, known = [], None, False
    names = {"pingpong", "sendrecv", "allreduce", "reduce", "reducescatter", "allgather", "gather", "scatter", "alltoall", "bcast"}
    for line in text.splitlines():
        line = line.strip()
        title = re.match(r"#\s*Benchmarking\s+(\S+)", line)
        if title:
            known, time = re.sub(r"\W|_", "", title[1]).lower() in names, None
        elif known and "#bytes" in line and "repetitions" in line:
            words = line.split()
            columns = [index for begin in ("t_max[", "t[", "t_avg[") for index, word in enumerate(words) if word.startswith(begin)]
            time = columns[0] if columns else None
        elif known and time is not None and re.match(rf"{NUMBER}(\s+{NUMBER})+$", line):
            words = line.split()
            rows.append((float(words[0]), float(words[time])))
    return rows


def trace_steps(path):
    """Returns the duration of each `ProfilerStep#` span of a trace, in the order of their beginnings [s]."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        trace = json.load(file)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    steps = [(event["ts"], event["dur"]) for event in events
             if event.get("ph") == "X" and str(event.get("name", "")).startswith("ProfilerStep") and
             event.get("cat") != "gpu_user_annotation"]
    return [duration * 1e-6 for _, duration in sorted(steps)]


def differing_steps(output, path):
    """Returns the number of steps whose mean both readers have; a trace may end within its last step, which is left out."""
    its, mine = json.loads(output), trace_steps(path)
    for steps in (mine, mine[:-1], mine[1:], mine[1:-1]):
        if len(steps) == its["steps"] and abs(sum(steps) / len(steps) - its["step_time"]["mean"]) <= 1e-6:
            return len(steps), []
    return 0, [f"{its['steps']} steps with a mean of {its['step_time']['mean']} s, not {mine}"]


def workload_values(text):
    """Returns what a DLIO workload that trains says of its data and steps, under the names of the scenario's keys."""
    read = yaml.safe_load(text)
    read = read.get("workload", read)
    data, reader, train, workflow = (read.get(section, {}) for section in ("dataset", "reader", "train", "workflow"))
    if workflow.get("train", True) is False:
        return {}
    values = {
        "samples": data.get("num_files_train", 1) * data.get("num_samples_per_file", 1),
        "size": data.get("record_length", data.get("record_length_bytes")),
        "batch": reader.get("batch_size"),
        "workers": reader.get("read_threads"),
        "step": train.get("computation_time"),
    }
    return {key: value for key, value in values.items() if isinstance(value, (int, float))}


def scenario_values(output):
    """Returns the same values of an imported scenario, with sizes in bytes and times in seconds."""
    scenario = tomllib.loads(output)
    job, data = scenario["job"][0], next(iter(scenario["dataset"].values()))
    size = data["sample_size"]
    size = size["normal"]["mean"] if isinstance(size, dict) and "normal" in size else size
    loader = next(iter(job["loader"].values()), {})
    step = job.get("model", {}).get("step")
    values = {"samples": data["samples"], "size": size, "batch": job["batch"], "workers": loader.get("workers"), "step": step}
    return {key: float(value.split()[0]) if isinstance(value, str) else value
            for key, value in values.items() if isinstance(value, (int, float, str))}


def differing_values(output, text):
    """Returns the number of equal values of a workload, and descriptions of the others."""
    if yaml is None or "[dataset." not in output:
        return 0, []
    mine, its = workload_values(text), scenario_values(output)
    both = [key for key in mine if key in its]
    told = [f"{key} is {its[key]}, not {mine[key]}" for key in both if abs(mine[key] - its[key]) > 1e-9 * abs(mine[key])]
    return len(both) - len(told), told


READERS = {"nccl-tests": nccl_rows, "osu": osu_rows, "imb": imb_rows}


def imported(program, kind, path):
    """Runs an import; returns exit status, output and messages.

    OSU does not print the number of ranks: it is taken as 4. Logs that lost the name of a program of nccl-tests are tried as
    collectives whose ratio of bandwidths differs.
    """
    tries = [{"osu": ["--ranks", "4"], "kineto": ["--warm-up", "0", "--format", "json"]}.get(kind, [])]
    if kind == "nccl-tests":
        tries += [["--collective", name] for name in ("allreduce", "broadcast", "allgather")]
    for options in tries:
        run = subprocess.run([program, "import", kind, str(path), *options], capture_output=True, text=True, timeout=600)
        if run.returncode == 0 or not re.search("give --collective|busbw is", run.stderr):
            break
    return run.returncode, run.stdout, run.stderr


def samples_of(output):
    """Returns size and time of each imported sample [B, us], sizes as benchmarks print them."""
    rows = []
    for line in output.splitlines():
        sample = json.loads(line)
        size, ranks = sample["settings"]["bytes"], sample["settings"]["ranks"]
        rows.append((size, sample["seconds"] / sample["operations"] * 1e6, ranks, sample["labels"]["collective"]))
    return rows


def differing(kind, output, text):
    """Returns the number of rows that both readers have, and descriptions of the others."""
    per_rank = {"allgather", "all-to-all", "gather", "scatter"} if kind != "nccl-tests" else set()
    mine = collections.Counter((round(size), round(time, 3)) for size, time in READERS[kind](text) if time > 0)
    its = collections.Counter((round(size / (ranks if name in per_rank else 1)), round(time, 3))
                              for size, time, ranks, name in samples_of(output))
    # Nothing is moved by collectives without bytes, which forebay leaves out and says so.
    only_mine = {row: count for row, count in (mine - its).items() if row[0] > 0}
    only_its = its - mine
    told = [f"only in the file: {row} times {count}" for row, count in only_mine.items()]
    return sum((mine & its).values()), told + [f"only imported: {row} times {count}" for row, count in only_its.items()]


def why(message):
    """Returns a refusal without names, lines and numbers, so that equal reasons are counted together."""
    message = message.strip().splitlines()[-1] if message.strip() else "no words"
    message = re.sub(r"^forebay: cannot use [^ ]+( [^ ]+)*?: ", "", message)
    return re.sub(r"\d[\d.e+-]*", "N", re.sub(r"`[^`]*`", "`…`", message))[:110]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--forebay", default="target/debug/forebay")
    parser.add_argument("--verbose", action="store_true", help="name each refused file, and what was said of accepted ones")
    wanted = parser.parse_args()
    files, accepted, rows, other = (collections.Counter() for _ in range(4))
    refused, different = collections.defaultdict(collections.Counter), []
    for path in sorted(path for path in wanted.folder.rglob("*") if path.is_file()):
        kind = kind_of(path)
        if kind is None:
            other[path.suffix] += 1
            continue
        files[kind] += 1
        status, output, said = imported(wanted.forebay, kind, path)
        if status not in (0, 2):
            different.append(f"{path}: exit status {status}: {said.strip()[:200]}")
        if wanted.verbose and said:
            print(f"{path}: {said.strip()}")
        if status:
            refused[kind][why(said)] += 1
            continue
        accepted[kind] += 1
        if kind in READERS and path.suffix == ".json":
            continue
        if kind == "kineto":
            same, told = differing_steps(output, path)
        elif kind == "dlio":
            same, told = differing_values(output, text_of(path))
        else:
            same, told = differing(kind, output, text_of(path))
        rows[kind] += same
        if told:
            # What is left out is said; without a word, a row that only one reader has is a mistake.
            if not ("left out" in said and all(one.startswith("only in the file") for one in told)):
                different.append(f"{path}: {'; '.join(told[:3])}{' …' if len(told) > 3 else ''}")
    for kind in sorted(files):
        print(f"{kind}: {accepted[kind]} of {files[kind]} files accepted, {rows[kind]} rows equal")
        for reason, count in refused[kind].most_common():
            print(f"  {count} refused: {reason}")
    print(f"{sum(other.values())} files of other kinds")
    for one in different:
        print(f"DIFFERENT {one}")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
