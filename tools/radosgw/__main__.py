"""A server by hand."""

import sys

from loopback import serve

from radosgw.server import RadosGateway

if __name__ == "__main__":
    sys.exit(serve(RadosGateway.start, "radosgw"))
