"""Clusters of HDFS under load, while their parts fail: for tests and for docs/reliability.md.

    ./dev reliability hdfs -- [--seed S]… [--events N] [--client NAME]…

schedule  what happens in a round: pure, from a seed
records   what is written: each byte follows from its place, so that no copy is kept
journal   what the writers were promised, in files that are synced line by line; and its reader
writer    one process with streams of hflush or hdfs-native; LoadWriter.java: of Java's client
cluster   a cluster, and a function for each kind of event
judge     what a file must have, what was lost, which writer gave up too early: pure
running   a round: schedule, cluster and writers together
measuring rounds for docs/reliability-hdfs.json
page      docs/reliability.md's part from docs/reliability-hdfs.json
"""
