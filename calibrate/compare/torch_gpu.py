"""Times forebay's training steps on a GPU in PyTorch: kernel by kernel (eager) and as a CUDA graph.

    python torch_gpu.py [--models lenet5,resnet50,gpt-small] [--precisions fp32,tf32,bf16] [--batches 1,8,64,256]
                        [--points resnet50:bf16:64,gpt-small:bf16:8] [--graphs] [--budget 600]
                        [--samples calibration-eager/samples.jsonl calibration-gpu/samples.jsonl]
                        [--output torch.csv] [--kernels 10] [--fast] [--compile MODE,...]
                        [--channels-last] [--cudnn-benchmark] [--fused-attention] [--fused-optimizer]

Trains in PyTorch the networks that forebay trains, as forebay trains them: channels first, attention unfused,
BF16 by autocast with parameters of 4 bytes, SGD with momentum 0.9 or Adam. Elsewhere PyTorch's defaults apply.
--channels-last, --cudnn-benchmark, --fused-attention and --fused-optimizer show what PyTorch's faster settings give.
--fast times all points without them, then with all of them, then with `torch.compile` too, in the modes of --compile:
the points of one precision are compiled at the same time, in processes of their own, and timed one after the other.

Prints a row for each model, precision, batch size, mode (`eager`, with --graphs also `graph`) and settings: the median
time of a step in PyTorch by CUDA events; with --samples also forebay's in the same mode, of one learner, and its
ratio to PyTorch's. Graphs are in the samples of `calibrate/plans/gpu.toml`, single kernels in those of
`calibrate/plans/gpu-eager.toml`. A point that fails has a row without time and the reason as a comment. With
--kernels N, comments after each row list the N kernels that take the most GPU time.

Needs PyTorch 2.9 or later with CUDA, on Linux. Steps run in processes of their own, so that no failure of one
point, nor the profiler, affects the points after it.
"""
import argparse
import contextlib
import csv
import gc
import importlib.metadata
import itertools
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import statistics
import subprocess
import sys
import time

START = time.monotonic()

import torch
from torch.nn import functional as F

from torch_networks import MODELS

COLUMNS = ["model", "precision", "batch", "mode", "settings", "pytorch_ms", "forebay_ms", "ratio"]
PRECISIONS = ["fp32", "tf32", "bf16"]
DEVICE = "cuda"
# What may be set for a network beyond forebay's training.
SETTINGS = {"lenet5": ["cudnn-benchmark", "fused-optimizer"],
            "resnet50": ["channels-last", "cudnn-benchmark", "fused-optimizer"],
            "gpt-small": ["fused-attention", "fused-optimizer"]}


def set_precision(precision):
    """Allows TF32 in products of matrices and in convolutions, or forbids it in both."""
    # The older function also sets what PyTorch's profiler asks for; where both differ, PyTorch raises an error.
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    for operations in (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn):
        operations.fp32_precision = "tf32" if precision == "tf32" else "ieee"


def training_step(task, options):
    """Returns a function that trains one step, and the optimizer. A step to be captured needs the mode `graph`."""
    (model, precision, batch), mode, settings = task
    set_precision(precision)
    torch.backends.cudnn.benchmark = "cudnn-benchmark" in settings
    build, data = MODELS[model]
    chosen = argparse.Namespace(channels_last="channels-last" in settings,
                                fused_attention="fused-attention" in settings)
    with torch.device(DEVICE):
        network = build(chosen).train()
        inputs, targets = data(batch)
    if chosen.channels_last:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    fused = {"fused": True} if "fused-optimizer" in settings else {}
    if model == "gpt-small":
        optimizer = torch.optim.Adam(network.parameters(), 1e-3, capturable=mode == "graph", **fused)
    else:
        optimizer = torch.optim.SGD(network.parameters(), 0.02, momentum=0.9, **fused)

    def loss_of(inputs, targets):
        if precision != "bf16":
            return F.cross_entropy(network(inputs), targets)
        with torch.autocast(DEVICE, torch.bfloat16, cache_enabled=mode != "graph"):
            return F.cross_entropy(network(inputs), targets)

    compiled = next((setting for setting in settings if setting.startswith("compile")), None)
    if compiled:
        # Compilers ask for cuDNN's precision by the older name, which PyTorch answers only if it was set by that name.
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        how = compiled.partition(":")[2]
        loss_of = torch.compile(loss_of, mode=None if how == "default" else how, dynamic=False)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(inputs, targets).backward()
        optimizer.step()

    return step, optimizer


def captured(step, optimizer):
    """Captures a step as a CUDA graph. Returns a function that launches it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    # Without gradients, the backward pass writes them anew in each replay instead of adding to them.
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    return graph.replay


def step_seconds(step, seconds):
    """Returns the median time of a step.

    Warms up for at least 5 steps and 0.3 s. Then times groups of steps by CUDA events: at least 10 groups, each
    of about 10 ms or of one step, `seconds` in all.
    """
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    begin, elapsed, steps = time.perf_counter(), 0.0, 0
    while elapsed < 0.3:
        step()
        torch.cuda.synchronize()
        elapsed, steps = time.perf_counter() - begin, steps + 1
    estimate = elapsed / steps
    size = max(1, round(0.01 / estimate))
    groups = max(10, int(seconds / (size * estimate)))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(groups + 1)]
    events[0].record()
    for event in events[1:]:
        for _ in range(size):
            step()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) * 1e-3 / size for a, b in zip(events, events[1:]))


def kernel_lines(step, count, steps=3):
    """Returns lines on the GPU time of a step and on the `count` kernels that take the most of it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    kernels = [kernel for kernel in profile.key_averages()
               if kernel.device_type == torch.autograd.DeviceType.CUDA
               and not getattr(kernel, "is_user_annotation", False)]
    kernels.sort(key=lambda kernel: -kernel.self_device_time_total)
    total = sum(kernel.self_device_time_total for kernel in kernels) / steps
    calls = sum(kernel.count for kernel in kernels) / steps
    return [f"GPU time per step: {total / 1e3:.4f} ms in {calls:g} kernels, copies and fills"] + [
        f"{kernel.self_device_time_total / steps:10.1f} us {kernel.count / steps:6g} x {kernel.key[:90]}"
        for kernel in kernels[:count]]


def reason(error):
    """Returns an error in one line without commas."""
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return "out of memory"
    return " ".join(f"{type(error).__name__}: {error}".replace(",", ";").split())[:160]


def run_task(task, options, send):
    """Times a task and profiles it. Returns whether the process can go on to the next task."""
    timed = False
    try:
        # `step` owns the network and its data, which a graph reads but does not keep.
        step, optimizer = training_step(task, options)
        launch = captured(step, optimizer) if task[1] == "graph" else step
        send(("row", task, step_seconds(launch, options.seconds), ""))
        timed = True
        for line in kernel_lines(launch, options.kernels) if options.kernels else ():
            send(("comment", line))
        return True
    except Exception as error:
        send(("comment", f"no kernels: {reason(error)}") if timed else ("row", task, None, reason(error)))
        # Other errors, and any during a capture, may leave CUDA unusable in this process.
        return task[1] == "eager" and isinstance(error, torch.cuda.OutOfMemoryError)


def worker(tasks, options, pipe):
    """Runs tasks in a process of their own."""
    for task in tasks:
        if not run_task(task, options, pipe.send):
            break
        gc.collect()
        torch.cuda.empty_cache()


def left(options):
    """Returns what is left of the budget [s]."""
    return max(0.0, START + options.budget - time.monotonic())


def run_worker(tasks, options, table):
    """Runs tasks in a new process, and writes what it sends. Returns the number of tasks that have a row."""
    # A profiler slows the launches of its process from then on.
    tasks = tasks[:1] if options.kernels else tasks
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=worker, args=(tasks, options, sender), daemon=True)
    process.start()
    sender.close()
    rows = 0
    with contextlib.suppress(EOFError):
        while receiver.poll(left(options)):
            rows += table.take(receiver.recv())
        process.kill()
        return rows
    process.join(10)
    process.kill()
    if rows == 0 or (process.exitcode and rows < len(tasks)):
        table.row(tasks[rows], None, f"the process ended with exit code {process.exitcode}")
        rows += 1
    elif process.exitcode:
        table.comment(f"  the process ended with exit code {process.exitcode}")
    return rows


def compiling_worker(point, settings, options, pipe, cores):
    """Compiles the step of a point, says so, and times it when it is told to: eager, then as a graph."""
    modes = ["eager", "graph"] if options.graphs else ["eager"]
    task = (point, modes[-1], settings)
    begin = time.monotonic()
    try:
        import torch._inductor.config
        torch._inductor.config.compile_threads = cores
        # Written for a graph, a step can be launched kernel by kernel too.
        step, optimizer = training_step(task, options)
        for _ in range(3):
            step()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        pipe.send(("compiled", time.monotonic() - begin))
        pipe.recv()
        for mode in modes:
            task = (point, mode, settings)
            launch = captured(step, optimizer) if mode == "graph" else step
            pipe.send(("row", task, step_seconds(launch, options.seconds), ""))
    except Exception as error:
        pipe.send(("row", task, None, reason(error)))
    pipe.close()


def run_compiled(points, mode, options, table):
    """Compiles the steps of points at the same time, and times one after the other when none is compiled any more."""
    context = multiprocessing.get_context("fork")
    cores = max(1, len(os.sched_getaffinity(0)) // len(points))
    waiting = {}
    for point in points:
        ours, theirs = context.Pipe()
        settings = (*SETTINGS[point[0]], f"compile:{mode}")
        # Not a daemon: compilers start processes of their own.
        process = context.Process(target=compiling_worker, args=(point, settings, options, theirs, cores))
        process.start()
        theirs.close()
        waiting[ours] = ((point, "eager", settings), process)
    # Compiling may take all but the time that timing needs.
    end = time.monotonic() + max(0.0, left(options) - 4.0 * len(points))
    compiled = []
    try:
        while waiting and (ready := multiprocessing.connection.wait(list(waiting), max(0.0, end - time.monotonic()))):
            for pipe in ready:
                task, process = waiting.pop(pipe)
                try:
                    message = pipe.recv()
                except EOFError:
                    message = ("row", task, None, "the process ended while it compiled")
                if message[0] == "compiled":
                    table.comment(f"  {':'.join(map(str, task[0]))} compiled in {message[1]:.0f} s")
                    compiled.append((pipe, process))
                else:
                    table.take(message)
        for task, process in waiting.values():
            kill(process)
            table.row(task, None, "not compiled in time")
        for pipe, process in compiled:
            with contextlib.suppress(EOFError, BrokenPipeError):
                pipe.send("go")
                while pipe.poll(left(options)):
                    table.take(pipe.recv())
            kill(process)
    finally:
        for _, process in [*waiting.values(), *compiled]:
            kill(process)


def kill(process):
    """Ends a process and the compilers that it has started."""
    descendants = [process.pid] if process.is_alive() else []
    for parent in descendants:
        with contextlib.suppress(OSError):
            children = open(f"/proc/{parent}/task/{parent}/children", encoding="utf-8").read()
            descendants += [int(child) for child in children.split()]
    for each in descendants:
        with contextlib.suppress(OSError):
            os.kill(each, signal.SIGKILL)
    process.join(5)


class Table:
    """The rows, printed and written to a file, each as soon as it is known."""

    def __init__(self, path, forebay):
        self.files = [sys.stdout] + ([open(path, "w", encoding="utf-8")] if path else [])
        self.forebay = forebay

    def write(self, line):
        for file in self.files:
            print(line, file=file, flush=True)

    def comment(self, line):
        self.write(f"# {line}")

    def take(self, message):
        """Writes what a process sent. Returns the number of rows: 1 or 0."""
        kind, *content = message
        if kind == "row":
            self.row(*content)
            return 1
        self.comment(f"  {content[0]}")
        return 0

    def row(self, task, pytorch, why):
        (model, precision, batch), mode, settings = task
        forebay = self.forebay.get((model, precision, batch, mode))
        milliseconds = [f"{seconds * 1e3:.4f}" if seconds else "" for seconds in (pytorch, forebay)]
        ratio = f"{forebay / pytorch:.3f}" if forebay and pytorch else ""
        cells = [model, precision, str(batch), mode, "+".join(settings) or "none", *milliseconds, ratio]
        self.write(",".join(cells) + (f"# {why}" if why else ""))


def forebay_seconds(paths):
    """Returns the median time of forebay's steps with one learner by model, precision, batch size and mode."""
    found = {}
    for line in itertools.chain.from_iterable(open(path, encoding="utf-8") for path in paths):
        sample = json.loads(line)
        settings = sample["settings"]
        if sample["probe"] != "step" or sample.get("excluded") or settings.get("learners") != 1:
            continue
        mode = "graph" if settings.get("graph") else "eager"
        key = (sample["labels"]["model"], sample["labels"].get("precision"), int(settings["batch"]), mode)
        found.setdefault(key, []).append(sample["seconds"] / sample["operations"])
    return {key: statistics.median(seconds) for key, seconds in found.items()}


def gpu_state():
    """Returns the GPU's name, driver and clocks as nvidia-smi says them."""
    query = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.limit"
    try:
        answer = subprocess.run(["nvidia-smi", query, "--format=csv"], capture_output=True, text=True, timeout=20)
        names, *values = csv.reader(answer.stdout.splitlines(), skipinitialspace=True)
        return ["; ".join(f"{name}: {value}" for name, value in zip(names, gpu)) for gpu in values]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return [f"nvidia-smi: {reason(error)}"]


def libraries():
    """Returns the versions of PyTorch, cuDNN and cuBLAS. Calls nothing of CUDA, which must start after the fork."""
    versions = [f"PyTorch {torch.__version__}"]
    for package in importlib.metadata.distributions():
        if (package.name or "").startswith(("nvidia-cudnn", "nvidia-cublas")):
            versions.append(f"{package.name} {package.version}")
    return "; ".join(versions)


def read_point(text):
    model, precision, batch = text.split(":")
    if model not in MODELS or precision not in PRECISIONS or int(batch) < 1:
        raise ValueError(text)
    return model, precision, int(batch)


def read_points(text):
    try:
        return [read_point(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"`{text}`: write MODEL:PRECISION:BATCH,... with {'/'.join(MODELS)} and {'/'.join(PRECISIONS)}")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--batches", default="1,8,64,256")
    parser.add_argument("--points", type=read_points, help="single points in place of all of the above")
    parser.add_argument("--graphs", action="store_true", help="also time steps as CUDA graphs")
    parser.add_argument("--seconds", type=float, default=1.0, help="timed steps of a point [s]")
    parser.add_argument("--budget", type=float, default=600.0, help="limit of the whole [s]")
    parser.add_argument("--samples", nargs="+", default=[], help="forebay's samples.jsonl, one or more")
    parser.add_argument("--output", help="file for the table")
    parser.add_argument("--kernels", type=int, default=0, help="number of kernels to list after each row")
    parser.add_argument("--channels-last", action="store_true", help="ResNet-50 in channels last")
    parser.add_argument("--cudnn-benchmark", action="store_true", help="convolutions as fast as trials find them")
    parser.add_argument("--fused-attention", action="store_true", help="F.scaled_dot_product_attention")
    parser.add_argument("--fused-optimizer", action="store_true", help="SGD and Adam with fused=True")
    parser.add_argument("--fast", action="store_true", help="without settings, with all of them, and compiled")
    parser.add_argument("--compile", default="default",
                        help="modes of torch.compile for --fast, such as default,max-autotune-no-cudagraphs")
    options = parser.parse_args()
    if not options.points:
        lists = (part.split(",") for part in (options.models, options.precisions, options.batches))
        try:
            options.points = read_points(",".join(map(":".join, itertools.product(*lists))))
        except argparse.ArgumentTypeError as error:
            parser.error(str(error))
    return options


def all_tasks(options):
    """Returns what is timed without compiling, as tasks: a point, a mode and settings."""
    modes = ["eager", "graph"] if options.graphs else ["eager"]
    given = {"channels-last": options.channels_last, "cudnn-benchmark": options.cudnn_benchmark,
             "fused-attention": options.fused_attention, "fused-optimizer": options.fused_optimizer}
    stages = [(modes, {model: tuple(of for of in SETTINGS[model] if given[of]) for model in MODELS})]
    if options.fast:
        # The fastest settings are timed in the faster mode only.
        stages = [(modes, dict.fromkeys(MODELS, ())), (modes[-1:], {model: tuple(SETTINGS[model]) for model in MODELS})]
    return [(point, mode, settings[point[0]])
            for modes, settings in stages for point in options.points for mode in modes]


def main():
    options = read_options()
    table = Table(options.output, forebay_seconds(options.samples))
    for line in [time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), *gpu_state(), libraries()]:
        table.comment(line)
    table.write(",".join(COLUMNS))
    tasks = all_tasks(options)
    while tasks and left(options):
        tasks = tasks[run_worker(tasks, options, table):]
    missing = [f"{':'.join(map(str, point))} {mode} {'+'.join(settings)}" for point, mode, settings in tasks]
    for mode in options.compile.split(",") if options.fast else ():
        for precision in dict.fromkeys(point[1] for point in options.points):
            points = [point for point in options.points if point[1] == precision]
            if left(options) > 20.0:
                run_compiled(points, mode, options, table)
            else:
                missing.append(f"{precision} compile:{mode}")
    for line in gpu_state():
        table.comment(f"at the end: {line}")
    if missing:
        table.comment(f"not reached within {options.budget:g} s: {', '.join(missing)}")


if __name__ == "__main__":
    main()
