"""Graphs as XLA sees them: parsing into one model, a canonical form, and the difference of two graphs.

Owns everything about the content of a graph. Leaves capture to ``record``, storage to ``store``, and the name of the
cause to ``analysis``.
"""
