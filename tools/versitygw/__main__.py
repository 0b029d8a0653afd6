"""A server by hand."""

import sys

from loopback import serve

from versitygw.server import VersityGateway

if __name__ == "__main__":
    sys.exit(serve(VersityGateway.start, "versitygw"))
