"""A writer that is going to be killed: appends records to a log, and says what was acknowledged.

    python crash_writer.py URL CONF PATH SYNC PIPE

SYNC is "hflush" or "hsync", done after every record: the log is replayed and continued, as a
write-ahead log is. Or it is "none": the file is created anew, and nothing is synced. The number of
each record that is done goes to PIPE, a line each. Records are the frames of support.data.
"""

from __future__ import annotations

import json
import os
import random
import sys

import hflush
from support.data import frame


def whole_records(data: bytes) -> tuple[int, int]:
    """How many whole records the log begins with, and how many bytes those are."""
    count = position = 0
    while True:
        header = data[position : position + 20]
        end = position + 20 + int(header[11:19] or 0) + 1 if len(header) == 20 else len(data) + 1
        if end > len(data):
            return count, position
        count, position = count + 1, end


def replay(fs: hflush.FileSystem, path: str) -> int:
    """Cut a torn record off the end of the log; return the number of the next record."""
    with fs.open(path) as reader:
        data = reader.read()
    count, length = whole_records(data)
    if length < len(data):
        fs.truncate(path, length)
    return count


def record(number: int) -> bytes:
    """Record `number` of any run: mostly small, now and then larger than what a stream buffers."""
    size = random.Random(number).choice([1, 10, 100, 517, 4096, 70_000, 1_500_000])
    return frame(0, number, size)


def main(url: str, conf: str, path: str, sync: str, pipe: str) -> None:
    fs = hflush.FileSystem.new_instance(url, json.loads(conf))
    if sync == "none":
        number, out = 0, fs.create(path)
    else:
        number, out = replay(fs, path), fs.append(path)
    os.write(int(pipe), b"ready\n")
    while True:
        out.write(record(number))
        if sync != "none":
            getattr(out, sync)()
        os.write(int(pipe), b"%d\n" % number)
        number += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
