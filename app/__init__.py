"""The dashboard: pages over recorded runs, served to the person who recorded them.

The flow is ``runs`` (which runs there are) > ``data`` (what one run says, cached) > ``pages`` (what is shown of it),
with ``address`` as the state of a view (all of it is in the URL) and ``server`` around it. Owns everything a browser
shows. Leaves concluding to ``xla_insight.analysis`` and figures to ``xla_insight.report``.
"""
