"""The log of a run on disk: one append-only log of events a process, and tables over all of them.

Owns the bytes: schema (`schema`), writing (`writer` and what stands behind it) and reading (`reader`, `views`). Leaves
what an event means to ``facts.events`` and every conclusion to ``analysis``.
"""
