# gpufeed's command line, for an NVIDIA GPU. This file is linted (hadolint), but the image has been
# neither built nor run on a GPU yet.
#
#   docker build -t gpufeed .
#   docker run --rm --gpus all --shm-size 8g -v /path/to/nabirds:/data:ro gpufeed \
#     bench /data --device cuda
#
# --shm-size: MemoryCache keeps images in /dev/shm, of which Docker gives 64 MB.
# --build-arg EXTRAS=torch,arrow,remote adds extras; torch brings gigabytes of CUDA of its own.
#
# "runtime", not "base": DALI's wheels load NPP and cuFFT, which they do not bring. Any driver for
# CUDA 12 will do.
ARG CUDA=nvidia/cuda:12.8.1-runtime-ubuntu24.04

FROM ${CUDA} AS build
# Ubuntu's Python 3.12. Within a release packages only get fixes, so they are not pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir uv==0.13.9
# All packages as they were on this day: one date pins them, whichever extras are chosen.
ARG AS_OF=2026-11-20
ARG EXTRAS=arrow
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY gpufeed gpufeed
RUN /opt/uv/bin/uv venv --python /usr/bin/python3 /opt/gpufeed \
    && /opt/uv/bin/uv pip install --no-cache --compile-bytecode --exclude-newer "${AS_OF}" \
        --python /opt/gpufeed ".[${EXTRAS}]"

FROM ${CUDA}
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 gpufeed
COPY --from=build /opt/gpufeed /opt/gpufeed
ENV PATH=/opt/gpufeed/bin:$PATH
USER 10001
WORKDIR /home/gpufeed
ENTRYPOINT ["gpufeed"]
CMD ["info"]
