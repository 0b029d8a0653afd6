"""Stores that are built for tests, as docs/new-store.md says."""
