"""Helpers shared by every Python test directory: `from support.data import dataset`."""
