"""A file system whose files go stale, as a file server's do that replaces them: for tests/robustness/limits.sh.

usage: stale_fs.py MOUNT SIZE FILES READS

MOUNT holds FILES files of SIZE bytes of noise, 0.bin, 1.bin, …; after READS reads each further one fails with ESTALE,
and after twice as many every access does. Needs Linux's FUSE, libfuse 3 and `pip install mfusepy`.
"""

import errno
import os
import stat
import sys
import threading

import mfusepy as fuse


class Stale(fuse.Operations):
    use_ns = True

    def __init__(self, size, files, reads):
        self.size, self.files, self.left = size, files, reads
        self.mutex, self.noise = threading.Lock(), os.urandom(size)

    def count(self):
        with self.mutex:
            self.left -= 1
            if self.left < 0:
                raise fuse.FuseOSError(errno.ESTALE)

    def known(self, path):
        number = path[1:].removesuffix(".bin")
        return number.isdigit() and int(number) < self.files

    def getattr(self, path, fh=None):
        base = dict(st_uid=os.getuid(), st_gid=os.getgid(), st_mtime=0, st_atime=0, st_ctime=0)
        if path == "/":
            return base | dict(st_mode=stat.S_IFDIR | 0o755, st_nlink=2)
        if not self.known(path):
            raise fuse.FuseOSError(errno.ENOENT)
        return base | dict(st_mode=stat.S_IFREG | 0o644, st_nlink=1, st_size=self.size)

    def readdir(self, path, fh):
        return [".", ".."] + [f"{i}.bin" for i in range(self.files)]

    def open(self, path, flags):
        if self.left < 0:
            raise fuse.FuseOSError(errno.ESTALE)
        return 0

    def read(self, path, length, offset, fh):
        self.count()
        return self.noise[offset : offset + length]


if __name__ == "__main__":
    mount, size, files, reads = sys.argv[1], *map(int, sys.argv[2:5])
    fuse.FUSE(Stale(size, files, reads), mount, foreground=True, nothreads=True, direct_io=True)
