"""Why each graph was compiled: history of compiles, families, an ordered list of rules, and the entries of the report.

``history`` says what is known of each compile, ``rules`` decides its cause (the first rule that applies), ``entries``
groups what has one cause at one place. A new cause is a new rule in `rules.RULES`.
"""
