"""Draws loaders for `as_found.sh`: prints a plan of validation with NUMBER held-out points.

    loaders.py SCENARIO SEED NUMBER
"""

import json
import random
import sys

# Width and height of images, and the mean size of their files [B].
IMAGES = [(128, 96, 4886), (192, 144, 10210), (256, 192, 17722), (384, 288, 39164)]


def point(draw):
    threads = draw.randint(1, 8)
    settings = {"job.batch": draw.choice([8, 16, 32])}
    decode = round(10 ** draw.uniform(1.5, 3.3))
    if draw.random() < 0.3:
        width, height, size = draw.choice(IMAGES)
        dataset = {"samples": 600, "sample_size": f"{size} B", "image": {"width": width, "height": height, "resize": 80}}
        work, name = "decode", f"images of {width}"
    else:
        size = round(10 ** draw.uniform(4.2, 6))
        dataset = {"samples": 600 if size < 300_000 else 200, "sample_size": f"{size} B"}
        work, name = f"{decode} us", f"{size // 1000} kB and {decode} us"
    if draw.random() < 0.5:
        settings["job.loader"] = {"pytorch": {"workers": min(threads, 4), "decode": work}}
        name = f"PyTorch with {min(threads, 4)} workers: {name}"
    else:
        settings["job.loader"] = {"tf-queue": {"threads": threads, "capacity": "64 samples", "decode": work}}
        name = f"queue with {threads} threads: {name}"
    settings["dataset.samples"] = dataset
    crossover = round(draw.choice([0.1, draw.uniform(0.6, 1.6)]), 2)
    return f"{name}, step {crossover}", settings, crossover


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(of)}" for key, of in value.items()) + " }"
    return json.dumps(value)


def main(scenario, seed, number):
    draw = random.Random(seed)
    print(f"scenario = {json.dumps(scenario)}\nrepetitions = 3\nnoise_floor = 1.0\nretries = 0\npredictions = 60")
    for index in range(number):
        name, settings, crossover = point(draw)
        print(f'\n[[point]]\nname = "{index + 1}: {name}"\nuse = "held-out"\ncrossover = {crossover}\n[point.set]')
        for key, value in settings.items():
            print(f"{json.dumps(key)} = {toml(value)}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
