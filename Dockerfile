# Sluice: gateway, Celery worker and beat in one image; the command chooses.
#   docker build -t sluice .
# compose.yaml runs all of it. Settings come from the environment: docs/settings.md.

FROM python:3.12-slim AS packages
RUN python -m venv /opt/venv
COPY requirements/base.txt /tmp/base.txt
# Pinned and hashed; wheels only, so no compiler is needed.
RUN /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --only-binary :all: \
    --require-hashes -r /tmp/base.txt

FROM python:3.12-slim
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DATA_DIR=/data
RUN useradd --system --uid 10001 --user-group --home-dir /data --shell /usr/sbin/nologin sluice \
    && install -d -m 0700 -o sluice -g sluice /data
COPY --from=packages /opt/venv /opt/venv
WORKDIR /app
COPY . .
# The code belongs to root: the process can change nothing but /data.
RUN python -m compileall -q billing channels_admin gateway relay
USER sluice
VOLUME /data
EXPOSE 8000
# Readiness is false from SIGTERM on; what runs may end for READY_DELAY_SECONDS + SHUTDOWN_GRACE_SECONDS and
# a little more: give `docker stop` as long (`--time 100` with the defaults).
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
CMD ["python", "manage.py", "serve", "--host", "0.0.0.0", "--port", "8000"]
