"""Writes what a PyTorch training loop showed, as a row that `forebay validate --measured` reads.

    from forebay_hook import watch
    for images, labels in watch(loader, "runs.csv", {"job.batch": 64, "job.loader.tf-queue.threads": 4}):
        ...                      # forward, backward, update

The keys are those of the scenario that describes the run; rows of one file have the same keys. With CUDA the loop must wait for the device
once a step (`loss.item()` does), or pass `sync=torch.cuda.synchronize`.
"""
import csv
import os
import statistics
import time


MEASURED = ["steps", "samples_per_second", "step_time", "stall"]


def header(path, keys):
    """Returns the columns of the rows in `path`, in their order, or those of a new file; an error if the file has others."""
    columns = ["name", "use", *keys, *MEASURED]
    if len(set(columns)) < len(columns):
        raise ValueError(f"forebay_hook: keys must differ from each other and from name, use, {', '.join(MEASURED)}: {list(keys)}")
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return columns
    with open(path, newline="") as file:
        there = next(csv.reader(file))
    if sorted(there) != sorted(columns):
        lacking = ", ".join(sorted(set(there) - set(columns))) or "none"
        more = ", ".join(sorted(set(columns) - set(there))) or "none"
        raise ValueError(f"forebay_hook: {path} has columns that this run lacks ({lacking}), and this run has keys that the file "
                         f"lacks ({more}); name another file")
    return there


def watch(loader, path, keys, warm_up=5, use="check", sync=None, name=""):
    """Yields the loader's batches and, when they end, appends a row to `path`."""
    # An error here costs no training; one at the end would cost the run.
    header(path, keys)
    steps, waits, samples = [], [], []
    batches, begin = iter(loader), time.perf_counter()
    try:
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                break
            ready = time.perf_counter()
            yield batch
            if sync:
                sync()
            end = time.perf_counter()
            steps.append(end - begin)
            waits.append(ready - begin)
            samples.append(len(batch[0] if isinstance(batch, (list, tuple)) else batch))
            begin = end
    finally:
        if len(steps) > warm_up:
            steps, waits, samples = steps[warm_up:], waits[warm_up:], samples[warm_up:]
            row = {"name": name, "use": use, **keys, "steps": len(steps),
                   "samples_per_second": sum(samples) / sum(steps),
                   "step_time": statistics.fmean(steps), "stall": sum(waits) / sum(steps)}
            columns = header(path, keys)
            new = not os.path.exists(path) or os.path.getsize(path) == 0
            with open(path, "a", newline="") as file:
                writer = csv.DictWriter(file, columns)
                if new:
                    writer.writeheader()
                writer.writerow(row)
