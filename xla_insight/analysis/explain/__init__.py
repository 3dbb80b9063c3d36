"""A compile explained down to the instruction: which one was asked for, its graph beside the one before, the root.

``targets`` finds the compiles that a step or a graph names, ``aligned`` puts two graphs beside each other with equal
stretches folded, ``around`` shows what surrounds the root, ``explanation`` brings all of it together. Pure functions
over parsed graphs and the report. Leaves causes to ``recompiles`` and the look to surfaces.
"""
