# One image for every process: scheduler, worker, monitor, migration. docker-compose.yml says how each is started.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
WORKDIR /src
RUN python -m venv /opt/paretoken
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY analysis analysis
COPY db db
COPY examples/arena examples/arena
COPY paretoken paretoken
COPY scheduler scheduler
COPY workers workers
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
# The versions that the tests ran with.
RUN /opt/paretoken/bin/pip install --no-cache-dir -c requirements.lock /wheels/*.whl

FROM python:${PYTHON}-slim
COPY --from=build /opt/paretoken /opt/paretoken
ENV PATH=/opt/paretoken/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PARETOKEN_HOME=/tmp/paretoken
# By number, so that an orchestrator sees that it is not root.
USER 10001:10001
ENTRYPOINT ["paretoken"]
CMD ["--help"]
