#!/usr/bin/env python3
"""The yardstick (scenarios/yardstick.toml) on SimPy. Settings are key=value:

    fletcher_simpy.py sizes=lognormal.f64 jobs=16 steps=200

SimPy has no network: `Server` is one, exact for jobs with a link each and one shared server. The
transfers of a job have equal rates, so one sum of bytes per job says when each of them ends.
"""
import array
import heapq
import json
import sys
import time

import simpy


class Server:
    """One link that all jobs share, and one of its own for each job; max-min fair."""

    def __init__(self, env, jobs, server, nic):
        self.env, self.server, self.nic = env, server, nic
        self.served = [0.0] * jobs  # bytes that a transfer of this job would have got so far
        self.rates = [0.0] * jobs
        self.pending = [[] for _ in range(jobs)]  # heaps of (served at the end, number, event)
        self.since = 0.0
        self.started = 0
        self.version = 0
        self.changing = False

    def fetch(self, job, size):
        self.advance()
        done = self.env.event()
        self.started += 1
        heapq.heappush(self.pending[job], (self.served[job] + size, self.started, done))
        self.change()
        return done

    def advance(self):
        elapsed = self.env.now - self.since
        if elapsed > 0:
            self.served = [v + r * elapsed for v, r in zip(self.served, self.rates)]
            self.since = self.env.now

    def change(self):
        """New rates once everything of this instant has happened."""
        if not self.changing:
            self.changing = True
            self.env.timeout(0).callbacks.append(self.share)

    def level(self, counts):
        """Rate of a transfer that only the server limits."""
        left, flows = self.server, sum(counts)
        for count in sorted(counts, reverse=True):  # the most crowded links fill first
            if not flows or left / flows * count <= self.nic:
                break
            left -= self.nic
            flows -= count
        return left / flows if flows else self.nic

    def share(self, _):
        self.changing = False
        self.advance()
        counts = [len(heap) for heap in self.pending]
        level = self.level(counts)
        self.rates = [min(level, self.nic / n) if n else 0.0 for n in counts]
        waits = [
            (heap[0][0] - v) / r
            for heap, v, r in zip(self.pending, self.served, self.rates)
            if heap
        ]
        self.version += 1
        if waits:
            due = self.env.timeout(max(0.0, min(waits)), self.version)
            due.callbacks.append(self.finish)

    def finish(self, due):
        if due.value != self.version:
            return
        self.advance()
        for job, heap in enumerate(self.pending):
            # The clock's resolution and that of a sum of bytes.
            limit = self.served[job] + 1e-6 + 1e-12 * self.rates[job]
            while heap and heap[0][0] <= limit:
                heapq.heappop(heap)[2].succeed()
        self.change()


class Job:
    def __init__(self, env, server, index, settings, sizes):
        self.env, self.server, self.index, self.sizes = env, server, index, sizes
        self.settings = settings
        self.cores = simpy.Resource(env, settings["cores"])
        self.queue = simpy.Container(env, settings["capacity"])
        self.taken = 0
        self.finished = None
        for _ in range(settings["threads"]):
            env.process(self.load())
        env.process(self.train())

    def load(self):
        total = self.settings["steps"] * self.settings["batch"]
        while self.taken < total:
            place = self.index * 40503 + self.taken * 25173
            self.taken += 1
            yield self.server.fetch(self.index, self.sizes[place % len(self.sizes)])
            with self.cores.request() as core:
                yield core
                yield self.env.timeout(self.settings["decode"])
            yield self.queue.put(1)

    def train(self):
        for _ in range(self.settings["steps"]):
            yield self.queue.get(self.settings["batch"])
            yield self.env.timeout(self.settings["compute"])
        self.finished = self.env.now


def main():
    settings = dict(
        jobs=16, threads=8, steps=200, batch=256, cores=8, capacity=2000,
        decode=2e-3, compute=3e-3, server=2e9, nic=1.25e9, sizes="lognormal.f64",
    )
    for argument in sys.argv[1:]:
        key, value = argument.split("=", 1)
        settings[key] = type(settings[key])(value)
    sizes = array.array("d")
    with open(settings["sizes"], "rb") as file:
        sizes.frombytes(file.read())
    env = simpy.Environment()
    server = Server(env, settings["jobs"], settings["server"], settings["nic"])
    jobs = [Job(env, server, j, settings, sizes) for j in range(settings["jobs"])]
    begin = time.process_time()
    env.run()
    seconds = time.process_time() - begin
    steps = settings["steps"]
    flows = len(jobs) * steps * settings["batch"]
    print(json.dumps({
        "makespan": max(job.finished for job in jobs),
        "mean_step": sum(job.finished for job in jobs) / len(jobs) / steps,
        "flows": flows,
        "cpu_seconds": round(seconds, 3),
        "flows_per_cpu_second": round(flows / seconds),
    }))


main()
