# The dashboard over recorded runs, without torch: it only reads.
#
#   docker build -t xla-insight .
#   docker run --rm --read-only --tmpfs /tmp -v "$PWD/runs:/runs:ro" -p 127.0.0.1:8050:8050 xla-insight

FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY xla_insight xla_insight
COPY app app
RUN python -m venv /opt/xla-insight \
    && /opt/xla-insight/bin/python -m pip install --no-cache-dir -c constraints.txt ".[app]"

FROM python:3.11-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin viewer && mkdir /runs
COPY --from=build /opt/xla-insight /opt/xla-insight
ENV PATH=/opt/xla-insight/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp
USER 10001
EXPOSE 8050
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8050/', timeout=4).close()"]
# All addresses of the container, which has one port; which addresses of the host reach it is said by `docker run -p`.
CMD ["xla-insight", "app", "/runs", "--host", "0.0.0.0", "--port", "8050"]
