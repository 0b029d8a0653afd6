"""A MinIO server for tests, benchmarks and the demo.

    with MinioServer.start() as server:
        hflush.create("s3://bucket/key", conf=server.conf)

    PYTHONPATH=tools python -m minio     # one by hand, until stdin closes

binary   the program: built from its sources once, kept in the user's cache directory
server   a running one: start, stop, pause, buckets
"""

from minio.server import MinioServer

__all__ = ["MinioServer"]
