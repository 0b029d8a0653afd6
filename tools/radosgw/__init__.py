"""A Ceph cluster of one node with its S3 gateway, for tests.

    with RadosGateway.start() as server:
        server.make_bucket("bucket")
        hflush.create("s3://bucket/key", conf=server.conf)

    PYTHONPATH=tools python -m radosgw     # one by hand, until stdin closes

cluster  what must be there, its configuration, and its first steps
server   a running one: start, stop, pause, buckets
"""

from radosgw.server import RadosGateway

__all__ = ["RadosGateway"]
