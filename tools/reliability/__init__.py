"""What clients of S3 do when something goes wrong: measured, for docs/reliability.md.

    PYTHONPATH=tools:tests python -m reliability run [--client NAME]… [--case ID]…
    PYTHONPATH=tools:tests python -m reliability render

cases    the table's rows: what goes wrong, and what has to come of it
client   one client in one case, in a process of its own
"""
