"""The fault shim: fault_shim.c, its control from Python, and the worker process that runs tests below it."""
