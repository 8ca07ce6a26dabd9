"""Reads files past the page cache for `as_found.sh`: prints bytes and requests per second.

    reader.py FILE SIZE READERS SECONDS

Each reader reads requests of SIZE bytes [B] at random places of FILE, one after the other. What is read in the first second, which a
throttle may let pass at once, does not count.
"""

import mmap
import os
import random
import sys
import threading
import time


def main(path, size, readers, seconds):
    places = os.path.getsize(path) // size
    begin = time.monotonic()
    counted = [0] * readers

    def read(reader):
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, size)
        draw = random.Random(reader)
        while (now := time.monotonic()) < begin + seconds:
            os.preadv(file, [buffer], draw.randrange(places) * size)
            counted[reader] += now >= begin + 1

    threads = [threading.Thread(target=read, args=[reader]) for reader in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = sum(counted) / (time.monotonic() - begin - 1)
    print(rate * size, rate)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
