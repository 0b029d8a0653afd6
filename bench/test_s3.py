"""S3, beside obstore, opendal, pyarrow, s3fs and boto3: see s3_servers.py for what they run on."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

import pytest
from interleaved import Quantity, Target
from s3_servers import (
    AS_IT_COMES,
    BOTO3,
    DELAY_MS,
    OBSTORE,
    OPENDAL,
    OURS,
    PYARROW,
    S3FS,
    WITHOUT_SUMS,
    Answer,
    S3Bench,
)

MIB = 1 << 20
GB = 1e9
OBJECT = 256 * MIB
WRITE = 64 << 10
WRITERS = (OBSTORE, OPENDAL, PYARROW, S3FS, BOTO3)
READERS = (OBSTORE, OPENDAL, PYARROW)
NULL, MINIO, VERSITY = "a server that drops it", "MinIO", "Versity's gateway"
FAR = f"one that answers {DELAY_MS} ms later"
KEYS = 100_000
COPIED_GIB = 4


@pytest.fixture(params=["null_s3", "minio", "versitygw"])
def server(request: pytest.FixtureRequest) -> tuple[str, S3Bench]:
    """Each of the servers, and what the report calls it."""
    names = {"null_s3": NULL, "minio": MINIO, "versitygw": VERSITY}
    return names[request.param], request.getfixturevalue(request.param)


def peers(trial: Callable[[str], Answer], *names: str) -> dict[str, Callable[[], Answer]]:
    return {name: partial(trial, name) for name in names}


def test_write(server: tuple[str, S3Bench], ratios: Callable[..., None], quick: bool) -> None:
    """From create until close has returned; ours as it comes, with its checksums."""
    where, bench = server
    nbytes = OBJECT // 4 if quick else OBJECT

    def trial(name: str) -> Answer:
        answer = bench.order(name, "write", f"write/{name}", nbytes, WRITE)
        return {"seconds": answer["seconds"], "cpu": answer["cpu"] * GB / nbytes}

    about = f"256 MiB in writes of 64 KiB to {where}, as it comes"
    speed = 1.1 if where == NULL else 1.0
    cpu = [
        Target(OBSTORE, time_at_most=1.1),
        Target(PYARROW, time_at_most=0.5),
        *(Target(name, time_at_most=1.0) for name in (S3FS, BOTO3)),
    ]
    ratios(
        [
            Quantity(
                "seconds",
                f"{about}: throughput",
                [Target(name, speed_at_least=speed) for name in WRITERS],
                nbytes=nbytes,
            ),
            Quantity("cpu", f"{about}: client CPU", cpu, unit="s/GB"),
        ],
        ours=partial(trial, AS_IT_COMES),
        peers=peers(trial, *WRITERS),
        rounds=15,
    )


def test_cpu_of_a_gigabyte(null_s3: S3Bench, figure: Callable[..., None], quick: bool) -> None:
    """In seconds, not beside anybody."""
    seconds = [
        null_s3.order(OURS, "write", "cpu", OBJECT, WRITE)["cpu"] * GB / OBJECT
        for _ in range(3 if quick else 15)
    ]
    work = f"client CPU of 1 GB in writes of 64 KiB to {NULL}"
    figure("median", statistics.median(seconds), "s", at_most=0.5, work=work)


def test_write_alike(null_s3: S3Bench, ratios: Callable[..., None], quick: bool) -> None:
    """Without the checksums that the peer does not send either."""
    nbytes = OBJECT // 4 if quick else OBJECT

    def trial(name: str) -> Answer:
        answer = null_s3.order(name, "write", "alike", nbytes, WRITE)
        return {"seconds": answer["seconds"], "cpu": answer["cpu"] * GB / nbytes}

    about = f"256 MiB in writes of 64 KiB to {NULL}, no checksums"
    ratios(
        [
            Quantity(
                "seconds",
                f"{about}: throughput",
                [Target(OBSTORE, speed_at_least=1.1)],
                nbytes=nbytes,
            ),
            Quantity("cpu", f"{about}: client CPU", [Target(OBSTORE, time_at_most=1.0)], "s/GB"),
        ],
        ours=partial(trial, WITHOUT_SUMS),
        peers=peers(trial, OBSTORE),
        rounds=15,
    )


# How hflush is set, and what the report says of it.
settings = pytest.mark.parametrize(("ours", "said"), [(OURS, ""), (AS_IT_COMES, ", as it comes")])


@settings
def test_latency(
    server: tuple[str, S3Bench], ratios: Callable[..., None], quick: bool, ours: str, said: str
) -> None:
    """One small object after the other."""
    where, bench = server
    latency(bench, ratios, where + said, ours, 50 if quick else 300, rounds=15, of_boto3=0.5)


@settings
def test_latency_far_away(
    far_s3: S3Bench, ratios: Callable[..., None], quick: bool, ours: str, said: str
) -> None:
    """What the round trips of one object cost."""
    latency(far_s3, ratios, FAR + said, ours, 10 if quick else 30, rounds=5, of_boto3=1.0)


def latency(
    bench: S3Bench,
    ratios: Callable[..., None],
    where: str,
    ours: str,
    objects: int,
    *,
    rounds: int,
    of_boto3: float,
) -> None:
    """Compare the time of one small object; `of_boto3`: the part of boto3's that is the target."""

    def trial(name: str) -> Answer:
        return bench.order(name, "files", f"small/{name}", objects, 1)

    targets = [
        *(Target(name, time_at_most=1.0) for name in (OBSTORE, OPENDAL)),
        Target(BOTO3, time_at_most=of_boto3),
    ]
    ratios(
        [Quantity("p50", f"create, 1 KiB, close on {where}: p50", targets)],
        ours=partial(trial, ours),
        peers=peers(trial, OBSTORE, OPENDAL, BOTO3),
        rounds=rounds,
    )


def test_write_far_away(far_s3: S3Bench, ratios: Callable[..., None]) -> None:
    """What the round trips of parts cost."""
    nbytes = OBJECT // 4

    def trial(name: str) -> Answer:
        return far_s3.order(name, "write", f"write/{name}", nbytes, WRITE)

    targets = [Target(name, speed_at_least=1.0) for name in (OBSTORE, OPENDAL, BOTO3)]
    work = f"64 MiB in writes of 64 KiB to {FAR}: throughput"
    ratios(
        [Quantity("seconds", work, targets, nbytes=nbytes)],
        ours=partial(trial, OURS),
        peers=peers(trial, OBSTORE, OPENDAL, BOTO3),
        rounds=5,
    )


@pytest.mark.parametrize("streams", [1, 8])
def test_write_tls(
    minio_tls: S3Bench, ratios: Callable[..., None], quick: bool, streams: int
) -> None:
    """Each in a thread of its own; together as much as one alone."""
    nbytes = (OBJECT // 4 if quick else OBJECT) // streams

    def trial(name: str) -> Answer:
        return minio_tls.order(name, "streams", f"tls/{name}", streams, nbytes, WRITE)

    at_once = "one stream" if streams == 1 else f"{streams} streams"
    work = f"256 MiB in writes of 64 KiB to MinIO over TLS, {at_once}: throughput"
    targets = [Target(name, speed_at_least=1.0) for name in (OBSTORE, BOTO3)]
    ratios(
        [Quantity("seconds", work, targets, nbytes=nbytes * streams)],
        ours=partial(trial, OURS),
        peers=peers(trial, OBSTORE, BOTO3),
        rounds=10,
    )


def test_copy(minio: S3Bench, ratios: Callable[..., None], quick: bool) -> None:
    """The store does it; who asks in parts gets several at once."""
    nbytes = COPIED_GIB << 30 >> (4 if quick else 0)
    minio.order(OURS, "write", "copied/source", nbytes, MIB)

    def trial(name: str) -> Answer:
        return minio.order(name, "copy", "copied/source", "copied/target")

    targets = [Target(name, speed_at_least=1.0) for name in (OBSTORE, BOTO3)]
    work = f"{COPIED_GIB} GiB copied within MinIO: throughput"
    ratios(
        [Quantity("seconds", work, targets, nbytes=nbytes)],
        ours=partial(trial, OURS),
        peers=peers(trial, OBSTORE, BOTO3),
        rounds=5,
    )


def test_listing(null_s3: S3Bench, ratios: Callable[..., None]) -> None:
    """All objects below a directory, in pages of a thousand."""

    def trial(name: str) -> Answer:
        answer = null_s3.order(name, "keys", f"listed/{KEYS}")
        assert answer["objects"] == KEYS
        return answer

    targets = [Target(name, speed_at_least=1.0) for name in READERS]
    ratios(
        [Quantity("seconds", f"{KEYS:,} keys listed", targets, operations=KEYS)],
        ours=partial(trial, OURS),
        peers=peers(trial, *READERS),  # the others take half a minute
        rounds=5,
    )


@settings
def test_small_objects(
    server: tuple[str, S3Bench], ratios: Callable[..., None], quick: bool, ours: str, said: str
) -> None:
    """Sixteen threads that share one client."""
    where, bench = server
    objects = 200 if quick else 1000

    def trial(name: str) -> Answer:
        return bench.order(name, "files", f"many/{name}", objects, 16)

    ratios(
        [
            Quantity(
                "seconds",
                f"small objects: create, 1 KiB, close on {where}{said}; 16 threads",
                [
                    *(Target(name, speed_at_least=1.1) for name in (OBSTORE, OPENDAL)),
                    Target(S3FS, speed_at_least=3.0),
                ],
                operations=objects,
            )
        ],
        ours=partial(trial, ours),
        peers=peers(trial, OBSTORE, OPENDAL, S3FS),
        rounds=10,
    )


@pytest.fixture
def stored(server: tuple[str, S3Bench], quick: bool) -> tuple[str, S3Bench, str, int]:
    """An object to read."""
    where, bench = server
    nbytes = OBJECT // 4 if quick else OBJECT
    key = f"read-{nbytes}"  # so that the server that keeps nothing knows of it
    bench.order(OURS, "write", key, nbytes, WRITE)
    return where, bench, key, nbytes


def test_read(stored: tuple[str, S3Bench, str, int], ratios: Callable[..., None]) -> None:
    """From start to end."""
    where, bench, key, nbytes = stored

    def trial(name: str) -> Answer:
        answer = bench.order(name, "read", key, MIB)
        assert answer["bytes"] == nbytes
        return {"seconds": answer["seconds"], "cpu": answer["cpu"] * GB / nbytes}

    about = f"sequential read of 256 MiB from {where}"
    targets = [Target(name, speed_at_least=1.0) for name in READERS]
    ratios(
        [
            Quantity("seconds", f"{about}: throughput", targets, nbytes=nbytes),
            Quantity("cpu", f"{about}: client CPU", unit="s/GB"),
        ],
        ours=partial(trial, OURS),
        peers=peers(trial, *READERS),
        rounds=10,
    )


def test_preads(
    stored: tuple[str, S3Bench, str, int], ratios: Callable[..., None], quick: bool
) -> None:
    """One after the other, at random positions."""
    where, bench, key, nbytes = stored
    reads = 200 if quick else 10_000

    def trial(name: str) -> Answer:
        answer = bench.order(name, "preads", key, nbytes, reads, WRITE)
        assert answer["bytes"] == reads * WRITE
        return answer

    ratios(
        [
            Quantity(
                "seconds",
                f"64 KiB at random positions from {where}",
                [Target(name, speed_at_least=1.0) for name in READERS],
                operations=reads,
            )
        ],
        ours=partial(trial, OURS),
        peers=peers(trial, *READERS),
        rounds=5,
    )


def test_memory(server: tuple[str, S3Bench], ratios: Callable[..., None]) -> None:
    """How far it grows, in a process that has written one small object before."""
    where, bench = server

    def trial(name: str) -> Answer:
        with bench.child(name) as child:
            return {"mib": child.order("peak", f"peak/{name}", OBJECT, WRITE)["bytes"] / MIB}

    ratios(
        [
            Quantity(
                "mib",
                f"256 MiB in writes of 64 KiB to {where}: peak growth of memory",
                [Target(name, time_at_most=1.0) for name in READERS],
                unit="MiB",
            )
        ],
        ours=partial(trial, OURS),
        peers=peers(trial, *READERS),
        rounds=5,
    )
