"""Spark jobs whose driver is killed and that run again: hflush's sinks beside Spark's own.

`judge` says what a trial has shown, `job.py` is the program that is killed, `measuring` kills it,
`page` tells of it. Both sinks write the same rows to local files, as Parquet, in as many tasks.

- **append**: rows are added to a path that has others. Afterwards the job runs again, whole.
- **overwrite**: rows take the place of others. Before the job runs again the path is looked at
  twice: by a plain listing, which may show a commit at work, and after `hflush vacuum`, which
  carries it out or cleans. Spark's sink has nothing of the kind.
- **stream**: a query reads files, one a batch; it is started again with its checkpoint.
- **second query**: a query with a checkpoint of its own writes to the path of another one. No
  driver is killed.

A driver dies by SIGKILL, with its JVM and its workers, at a moment that follows from a seed: a part
of the time that the write takes when no driver is killed, half of the moments in its last quarter,
where it commits.
"""
