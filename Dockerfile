# A broker in a container: docs/run/operations.md. It does not run as root, writes nowhere but into its volume, and does not
# start without access control, whose folder the first start makes.

FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml hatch_build.py hatch_metadata.py README.md LICENSE ./
COPY docs/man docs/man
COPY zaichik zaichik
COPY protocol protocol
# An environment without pip: what is not in the image cannot be misused.
ENV PIP_PYTHON=/opt/zaichik/bin/python PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv --without-pip /opt/zaichik \
 && pip install --no-cache-dir "./[access,bridge,cluster,grpc,kafka,mqtt,speed,web]"

FROM python:3.13-slim
RUN groupadd --gid 8889 zaichik \
 && useradd --no-log-init --uid 8889 --gid zaichik --create-home --home-dir /var/lib/zaichik zaichik \
 && chmod 700 /var/lib/zaichik
COPY --from=build /opt/zaichik /opt/zaichik
ENV PATH=/opt/zaichik/bin:$PATH ZAICHIK_ACCESS=/var/lib/zaichik/access
# A number, so that Kubernetes can see that it is not root's.
USER 8889:8889
WORKDIR /var/lib/zaichik
VOLUME /var/lib/zaichik
EXPOSE 8889
STOPSIGNAL SIGTERM
# A broker with access control answers that it requires a login, which is an answer.
HEALTHCHECK --interval=1m --timeout=5s --start-period=10s CMD ["zaichik", "ping"]
ENTRYPOINT ["zaichik"]
CMD ["serve", "--host", "0.0.0.0", "--access", "access", "--data", "topics"]
