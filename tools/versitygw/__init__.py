"""A Versity gateway for tests: S3 over a directory, whose files are the objects.

PYTHONPATH=tools python -m versitygw     # one by hand, until stdin closes
"""

from versitygw.server import VersityGateway

__all__ = ["VersityGateway"]
