"""Draws mixes of small and large files for `known_answers.sh`: prints the settings of each, after its name and a tab."""

import random
import sys


def main(seed, number):
    draw = random.Random(seed)
    for _ in range(number):
        small, large = (round(10 ** draw.uniform(*of)) for of in ((0.9, 2.1), (2.2, 3.2)))
        readers = draw.randint(1, 4), draw.randint(1, 6)
        decode = [round(10 ** draw.uniform(2, 3)) for _ in range(2)]
        name = f"{readers[0]} x {small} kB beside {readers[1]} x {large} kB"
        settings = [
            f"dataset.small.sample_size={small} kB",
            f"dataset.large.sample_size={large} kB",
            f"job.small.loader.tf-queue.threads={readers[0]}",
            f"job.large.loader.tf-queue.threads={readers[1]}",
            f"job.small.loader.tf-queue.decode={decode[0]} us",
            f"job.large.loader.tf-queue.decode={decode[1]} us",
        ]
        print(name, *settings, sep="\t")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
