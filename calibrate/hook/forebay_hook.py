"""Writes what a PyTorch training loop showed, as a row that `forebay validate --measured` reads.

    from forebay_hook import watch
    for images, labels in watch(loader, "runs.csv", {"job.batch": 64, "job.loader.tf-queue.threads": 4}):
        ...                      # forward, backward, update

The keys are those of the scenario that describes the run; rows of one file have the same keys. With CUDA the loop must wait for the device
once a step (`loss.item()` does), or pass `sync=torch.cuda.synchronize`. Under torchrun every rank watches its loader, and rank 0 writes the
row, with the samples of all ranks.

Beside throughput, step time and the share of waiting, a row has

    first_batch   time from the start of the loader to its first batch [s]
    next_time     core-seconds of the loop's own thread to take a batch, without waiting: what `next()` costs when the batch is ready; 0
                  where the loop itself makes its batches (`num_workers=0`)
    host_time     time in which the loop's thread prepares a step: `next_time`, and from the batch to `sync` [s]; empty without `sync`
    workers       worker processes of the loader
    cores         cores that this process and the workers used, on average
    ranks         ranks of the job
"""
import csv
import os
import statistics
import time

try:
    import fcntl
except ImportError:
    fcntl = None

MEASURED = ["steps", "samples_per_second", "step_time", "stall"]
OBSERVED = ["first_batch", "next_time", "host_time", "workers", "cores", "ranks"]


def header(path, keys):
    """Returns the columns of the rows in `path`, in their order, or those of a new file; an error if the file has others."""
    needed = ["name", "use", *keys, *MEASURED]
    columns = needed + OBSERVED
    if len(set(columns)) < len(columns):
        own = ", ".join(["name", "use", *MEASURED, *OBSERVED])
        raise ValueError(f"forebay_hook: keys must differ from each other and from {own}: {list(keys)}")
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return columns
    with open(path, newline="") as file:
        there = next(csv.reader(file))
    lacking = set(needed) - set(there)
    more = set(there) - set(columns)
    if lacking or more or len(set(there)) < len(there):
        raise ValueError(f"forebay_hook: {path} has columns that this run lacks ({', '.join(sorted(more)) or 'none'}), and this run has "
                         f"keys that the file lacks ({', '.join(sorted(lacking)) or 'none'}); name another file")
    return there


def workers_of(batches):
    """Returns the processes of a loader's iterator; none where it has none, or does not show them."""
    return list(getattr(batches, "_workers", None) or [])


def core_seconds(processes):
    """Returns the core-seconds of this process and of others [s]; None where the system does not tell."""
    total = time.process_time()
    for process in processes:
        try:
            # Linux: the clock of another process of this user.
            total += time.clock_gettime((~process.pid << 3) | 2)
        except (AttributeError, OSError, TypeError):
            return None
    return total


def append(path, keys, row):
    """Appends a row to the file, alone among the processes that do."""
    with open(path, "a", newline="") as file:
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX)
        columns = header(path, keys)
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        if os.path.getsize(path) == 0:
            writer.writeheader()
        writer.writerow(row)


class Steps:
    """What the steps of a loop took, in the order of the steps [s]."""

    def __init__(self):
        self.whole, self.waits, self.nexts, self.hosts, self.samples = [], [], [], [], []

    def without(self, warm_up):
        for of in (self.whole, self.waits, self.nexts, self.hosts, self.samples):
            del of[:warm_up]


def watch(loader, path, keys, warm_up=5, use="check", sync=None, name=""):
    """Yields the loader's batches and, when they end, appends a row to `path`."""
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if rank == 0:
        # An error here costs no training; one at the end would cost the run.
        header(path, keys)
    steps, started = Steps(), time.perf_counter()
    batches = iter(loader)
    workers, begin, first, used = workers_of(batches), time.perf_counter(), None, None
    makes_batches = getattr(loader, "num_workers", None) == 0
    try:
        while True:
            cpu = time.thread_time()
            try:
                batch = next(batches)
            except StopIteration:
                break
            ready = time.perf_counter()
            next_time = 0.0 if makes_batches else time.thread_time() - cpu
            if first is None:
                first = ready - started
            yield batch
            prepared = time.perf_counter()
            if sync:
                sync()
            end = time.perf_counter()
            steps.whole.append(end - begin)
            steps.waits.append(ready - begin)
            steps.nexts.append(next_time)
            steps.hosts.append(next_time + prepared - ready)
            steps.samples.append(len(batch[0] if isinstance(batch, (list, tuple)) else batch))
            if len(steps.whole) == warm_up:
                used = (end, core_seconds(workers))
            begin = end
            last = core_seconds(workers)
    finally:
        if rank == 0 and len(steps.whole) > warm_up:
            begun, before = used or (started, None)
            cores = (last - before) / (begin - begun) if None not in (last, before) else ""
            steps.without(warm_up)
            append(path, keys, {
                "name": name, "use": use, **keys, "steps": len(steps.whole),
                "samples_per_second": ranks * sum(steps.samples) / sum(steps.whole),
                "step_time": statistics.fmean(steps.whole), "stall": sum(steps.waits) / sum(steps.whole),
                "first_batch": first, "next_time": statistics.median(steps.nexts),
                "host_time": statistics.median(steps.hosts) if sync else "",
                "workers": len(workers) or getattr(loader, "num_workers", ""), "cores": cores, "ranks": ranks})
