"""A server by hand."""

import sys

from loopback import serve

from minio.server import MinioServer

if __name__ == "__main__":
    sys.exit(serve(MinioServer.start, "minio"))
