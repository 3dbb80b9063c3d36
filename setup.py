"""Which packages are installed: all of ``xla_insight``, and ``app/`` under the name ``xla_insight_app``.

Everything else stands in pyproject.toml; only this list cannot, because setuptools finds packages by the name of their
folder and ``app`` is installed under another name.
"""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["xla_insight", "xla_insight.*"]),
        "xla_insight_app",
        *(f"xla_insight_app.{name}" for name in find_packages("app")),
    ]
)
