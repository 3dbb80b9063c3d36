"""What a report looks like: one module an output format, and the wording of numbers. Never computes.

Takes the frozen records of ``facts.report`` and tables of ``store`` and lays them out. Leaves every conclusion to
``analysis``.
"""
