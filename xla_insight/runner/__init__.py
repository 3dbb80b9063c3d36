"""Instrumented training workloads: scripts a user can read, run and copy. Leaves recording to ``record``."""
