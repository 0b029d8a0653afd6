"""Hadoop's MiniDFSCluster 3.5.0, for tests, benchmarks and the demo.

    with MiniCluster.start(datanodes=3) as cluster:
        hflush.create(cluster.url + "/file", cluster.conf)

    PYTHONPATH=tools python -m minidfs --datanodes 3     # one by hand, until stdin closes

jars      Maven's part: the jars of pom.xml, copied once per machine
jvm       a JVM with those jars, reached through py4j; it ends with the Python process
ports     ports that a daemon finds free when it starts again
cluster   NameNodes and DataNodes in it, and how single ones are stopped and started again

A JVM may have several clusters, one after another or side by side. All ports are free ones of
127.0.0.1; all files are below one temporary directory, which goes with the JVM.
"""

from minidfs.cluster import MiniCluster
from minidfs.jvm import Jvm

__all__ = ["Jvm", "MiniCluster"]
