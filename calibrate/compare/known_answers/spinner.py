"""Computes on several cores for `as_found.sh`: prints how many cores it got.

    spinner.py PROCESSES SECONDS
"""

import multiprocessing
import sys
import time


def spin(seconds):
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        sum(range(10_000))
    return time.process_time()


def main(processes, seconds):
    with multiprocessing.Pool(processes) as pool:
        begin = time.monotonic()
        used = sum(pool.map(spin, [seconds] * processes))
        print(used / (time.monotonic() - begin))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
