"""A token bucket before a disk, for `known_answers.sh`: lets the kernel's throttle pass more while the bucket holds bytes.

    bucket.py GROUP DEVICE HIGH LOW BUCKET

GROUP is a directory of the control group `blkio`, DEVICE a block device as major:minor, HIGH and LOW are bandwidths [B/s], BUCKET is
a size [B]. Goes on until a signal ends it; the throttle then stays as it was last.
"""

import sys
import time


def main(group, device, high, low, bucket):
    def served():
        with open(f"{group}/blkio.throttle.io_service_bytes") as file:
            rows = (line.split() for line in file)
            return sum(int(row[2]) for row in rows if len(row) == 3 and row[:2] == [device, "Read"])

    def limit(rate):
        with open(f"{group}/blkio.throttle.read_bps_device", "w") as file:
            file.write(f"{device} {int(rate)}")

    content, before, at, now = bucket, served(), time.monotonic(), None
    while True:
        rate = high if content > 0.02 * low else low
        # A new limit lets the bytes of a tenth of a second pass at once, so the content may fall below zero.
        if rate != now:
            limit(rate)
            now = rate
        time.sleep(0.02)
        bytes_, then = served(), time.monotonic()
        content = min(bucket, content + low * (then - at) - (bytes_ - before))
        before, at = bytes_, then


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:6]))
