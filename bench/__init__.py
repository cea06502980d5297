"""Benchmarks, and the TPC-DS data and queries that tests and benchmarks share."""
