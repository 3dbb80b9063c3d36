"""Inside the training process: hooks, buffers, and the thread that turns them into a log.

Owns everything that runs beside the user's training and the promise that none of it can hurt it. torch_xla is named in
one file only (``torch_xla.py``). Leaves bytes on disk to ``store`` and every conclusion to ``analysis``.
"""
