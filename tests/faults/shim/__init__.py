"""The fault shim, its control from Python, and the worker process that runs tests below it."""
