# One image for every role: the controller, the endpoint picker, the routing sidecar, the storage initializer.
#
#   docker build --tag ghcr.io/longboat/longboat:v0.1.0 .
#
# The binary is static, so the image holds it, certificates of public authorities, and nothing else: no shell, no libc. It
# runs as a user that owns nothing, and writes nowhere but to volumes.

FROM docker.io/library/rust:1.95.0-alpine AS build
# What the image has, not what rust-toolchain.toml would have it fetch.
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN apk add --no-cache ca-certificates musl-dev
WORKDIR /src
COPY . .
# The crates of the registry and the build's own output are kept between builds.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --package longboat && \
    cargo build --profile dist --locked --package longboat --package longboat-engine --bin longboat-engine \
      --features longboat-engine/llguidance && \
    scripts/image-root.sh /image target/dist/longboat target/dist/longboat-engine /etc/ssl/certs/ca-certificates.crt

FROM scratch AS base
COPY --from=build /image /
USER 1000:1000
ENV HOME=/tmp

# A storage initializer is started with a source and a folder, and no command: `docker build --target storage-initializer`.
FROM base AS storage-initializer
ENTRYPOINT ["/storage-initializer/scripts/initializer-entrypoint"]

FROM base AS longboat
ENTRYPOINT ["/longboat"]
