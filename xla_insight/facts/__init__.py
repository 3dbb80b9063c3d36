"""Frozen plain records that every layer shares: events as recorded, and the report built from them.

Owns the words (event kinds, triggers, host states) and the record types. Leaves all reading, writing and computing to
the layers above. Standard library only, so that the training process can import it for free.
"""
