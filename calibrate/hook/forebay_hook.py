"""Writes what a PyTorch training loop showed, as a row that `forebay validate --measured` reads.

    from forebay_hook import watch
    for images, labels in watch(loader, "runs.csv", {"job.batch": 64, "job.loader.tf-queue.threads": 4}):
        ...                      # forward, backward, update

The keys are those of the scenario that describes the run. With CUDA the loop must wait for the device
once a step (`loss.item()` does), or pass `sync=torch.cuda.synchronize`.
"""
import csv
import os
import statistics
import time


def watch(loader, path, keys, warm_up=5, use="check", sync=None, name=""):
    """Yields the loader's batches and, when they end, appends a row to `path`."""
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
            new = not os.path.exists(path) or os.path.getsize(path) == 0
            with open(path, "a", newline="") as file:
                writer = csv.DictWriter(file, row)
                if new:
                    writer.writeheader()
                writer.writerow(row)
