"""The job: what to plan, and how it is read from a file."""

from tempura.job.job import Job, Objective, parse_methods

__all__ = ["Job", "Objective", "parse_methods"]
