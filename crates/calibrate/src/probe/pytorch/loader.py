"""Measures PyTorch's loader for `forebay calibrate`: reads requests from its input and writes answers to its output, a line of JSON each.

The first line says what is there: {"torch": "2.9.0", "libraries": ["pillow"]}, or {"lacking": WHY}.
"""

import io
import json
import os
import resource
import select
import sys
import tempfile
import threading
import time

# What libraries print must not come between the answers.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(answer):
    print(json.dumps(answer), file=ANSWERS, flush=True)


try:
    import torch
    from torch.utils.data import DataLoader, Dataset
except ImportError as error:
    say({"lacking": f"{sys.executable}: {error}"})
    sys.exit()

torch.set_num_threads(1)
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
SPREAD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def resized(image, side):
    """Returns an image of bytes, resized to a square."""
    if not side:
        return image
    small = torch.nn.functional.interpolate(image[None], size=(side, side), mode="bilinear", antialias=True)
    return small[0]


def pillow():
    from PIL import Image

    def decode(data, side):
        image = Image.open(io.BytesIO(data)).convert("RGB")
        if side:
            image = image.resize((side, side), Image.Resampling.BILINEAR)
        width, height = image.size
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        return pixels.view(height, width, 3).permute(2, 0, 1).contiguous()

    return decode


def torchvision():
    from torchvision.io import ImageReadMode, decode_jpeg

    def decode(data, side):
        stored = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return resized(decode_jpeg(stored, mode=ImageReadMode.RGB), side)

    return decode


def turbo():
    try:
        from simplejpeg import decode_jpeg
    except ImportError:
        from turbojpeg import TJPF_RGB, TurboJPEG

        library = TurboJPEG()

        def decode_jpeg(data, _):
            return library.decode(data, pixel_format=TJPF_RGB)

    def decode(data, side):
        image = torch.from_numpy(decode_jpeg(data, "RGB")).permute(2, 0, 1).contiguous()
        return resized(image, side)

    return decode


LIBRARIES = {}
for make in (pillow, torchvision, turbo):
    try:
        LIBRARIES[make.__name__] = make()
    except (ImportError, OSError, RuntimeError):
        pass


class Images:
    """The images of files in memory, decoded to floats as for training."""

    def __init__(self, paths, decode, side):
        self.stored = [open(path, "rb").read() for path in paths]
        self.decode, self.side = decode, side

    def __getitem__(self, index):
        image = self.decode(self.stored[index % len(self.stored)], self.side)
        return (image.float().div_(255) - MEAN).div_(SPREAD)


class Ready(Dataset):
    """Samples that are there: what is left is the loader's own work."""

    def __init__(self, size):
        self.sample = torch.zeros(max(1, size // 4))

    def __len__(self):
        return 1 << 40

    def __getitem__(self, index):
        return self.sample, index


def core_seconds(process):
    """Returns the core-seconds of another process of this user [s]."""
    return time.clock_gettime((~process.pid << 3) | 2)


def used():
    """Returns the core-seconds of this process and of its workers that have ended [s]."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def decode(request):
    images = Images(request["images"], LIBRARIES[request["library"]], request["resize"])
    number, cores, begin = 0, time.process_time(), time.monotonic()
    while time.monotonic() < begin + request["seconds"]:
        for index in range(len(images.stored)):
            images[index]
            number += 1
    return {"operations": number, "seconds": time.monotonic() - begin, "core_seconds": time.process_time() - cores}


def threads(request):
    """Decodes by several threads of this interpreter, which hold its lock for a part of their work."""
    images = Images(request["images"], LIBRARIES[request["library"]], request["resize"])
    counts, begin = [0] * request["threads"], time.monotonic()

    def work(number):
        while time.monotonic() < begin + request["seconds"]:
            images[number + counts[number]]
            counts[number] += 1

    cores = time.process_time()
    team = [threading.Thread(target=work, args=(number,)) for number in range(request["threads"])]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    return {"operations": sum(counts), "seconds": time.monotonic() - begin, "core_seconds": time.process_time() - cores}


def taking(batches):
    """Returns what a batch that is ready costs the loop's thread, from next() until it is released; without the work of a step [s]."""
    at = time.monotonic()
    samples, numbers = next(batches)
    # A step reads its batch in any case, but the first time it also maps the pages that a worker has written.
    begin = time.monotonic()
    samples.sum()
    middle = time.monotonic()
    samples.sum()
    second = time.monotonic() - middle
    del samples, numbers
    return time.monotonic() - at - 2 * min(second, middle - begin)


def batch(request):
    """Times what a worker and the loop's thread do for a batch whose samples are there."""
    loader = DataLoader(Ready(request["sample"]), request["batch"], num_workers=1)
    batches = iter(loader)
    [worker] = batches._workers
    for _ in range(3):
        next(batches)
    # The worker never waits for room here.
    number, cores, begin = 0, core_seconds(worker), time.monotonic()
    while number < 3 or time.monotonic() < begin + request["seconds"] / 2:
        next(batches)
        number += 1
    made = (core_seconds(worker) - cores) / number
    # Here the loop finds each batch ready.
    reader, times, begin = batches._worker_result_queue._reader, [], time.monotonic()
    while len(times) < 3 or time.monotonic() < begin + request["seconds"] / 2:
        select.select([reader], [], [], 10)
        # The worker goes on with the next batch meanwhile, on a core of its own.
        time.sleep(made)
        times.append(taking(batches))
    taken = sorted(times)[len(times) // 2]
    del batches
    # Without workers, the loop's thread makes each batch.
    batches, times, begin = iter(DataLoader(Ready(request["sample"]), request["batch"])), [], time.monotonic()
    while len(times) < 3 or time.monotonic() < begin + request["seconds"] / 2:
        at = time.monotonic()
        next(batches)
        times.append(time.monotonic() - at)
    inline = sorted(times)[len(times) // 2]
    return {
        "operations": number,
        "seconds": number * made,
        "core_seconds": number * made,
        "observed": {"made": made, "taken": taken, "inline": inline},
    }


def start(request):
    """Times the start of workers, until the first batch is there."""
    loader = DataLoader(Ready(4), 1, num_workers=request["workers"])
    begin = time.monotonic()
    batches = iter(loader)
    next(batches)
    seconds = time.monotonic() - begin
    del batches
    return {"operations": 1, "seconds": seconds, "core_seconds": 0.0}


STEP = 0.02


def rank(number, request, meeting, answers):
    """Trains as one of several ranks: takes a batch that is ready, computes by a sleep, and waits for the others."""
    import torch.distributed as ranks

    of = request["ranks"]
    if of > 1:
        ranks.init_process_group("gloo", init_method=f"file://{meeting}", rank=number, world_size=of)
    batches = iter(DataLoader(Ready(4), 1, num_workers=1))
    own, begin, going = [], 0.0, torch.ones(1)
    while going.item() > 0:
        at = time.monotonic()
        next(batches)
        time.sleep(STEP)
        awake = time.monotonic()
        # The first steps start the worker and map memory.
        begin = begin if own[3:] else at
        going.fill_(1.0 if len(own) < 23 or awake < begin + request["seconds"] else 0.0)
        own.append(time.monotonic() - at - STEP)
        if of > 1:
            # All ranks stop together.
            ranks.all_reduce(going, ranks.ReduceOp.MIN)
    answers.put((number, own[3:]))
    if of > 1:
        ranks.destroy_process_group()


def several(request):
    """Times what ranks do in a step beside computing: the mean over ranks, and the mean over steps of the slowest of them."""
    from multiprocessing import get_context

    fork = get_context("fork")
    answers = fork.SimpleQueue()
    with tempfile.TemporaryDirectory() as place:
        begin = time.monotonic()
        team = [
            fork.Process(target=rank, args=(number, request, os.path.join(place, "meeting"), answers))
            for number in range(request["ranks"])
        ]
        for one in team:
            one.start()
        found, until = {}, begin + 30 + 4 * request["seconds"]
        while len(found) < len(team):
            if answers._reader.poll(0.1):
                number, own = answers.get()
                found[number] = own
            elif time.monotonic() > until or any(one.exitcode for one in team):
                break
        for one in team:
            one.join(1)
            one.kill()
        if len(found) < len(team):
            raise RuntimeError(f"{request['ranks']} ranks did not meet on this machine")
    steps = list(zip(*found.values()))
    mean = sum(map(sum, steps)) / len(steps) / len(team)
    slowest = sum(map(max, steps)) / len(steps)
    return {
        "operations": len(steps),
        "seconds": time.monotonic() - begin,
        "core_seconds": 0.0,
        "observed": {"own": mean, "slowest": slowest},
    }


def main():
    say({"torch": torch.__version__, "libraries": list(LIBRARIES)})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            before = used()
            parts = {"decode": decode, "threads": threads, "batch": batch, "start": start, "ranks": several}
            answer = parts[request["part"]](request)
            say({**answer, "elsewhere": used() - before})
        except Exception as error:  # The program that asks decides what to do.
            say({"failed": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
