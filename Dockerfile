# Everything that rendering and evaluating need: docker build -t candlelight . && docker run candlelight
# docs/installing.md says how to use it, also with Apptainer.
FROM python:3.13-slim-bookworm

# Libraries that Blender links to; the first lines of scripts/setup have the same list.
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        libgl1 libsm6 libice6 libx11-6 libxext6 libxfixes3 libxi6 libxkbcommon0 libxrender1 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/candlelight
COPY constraints.txt ./

# The build of torch for processors. For GPUs: --build-arg TORCH_INDEX=https://pypi.org/simple
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --no-deps --index-url "$TORCH_INDEX" "$(grep '^torch==' constraints.txt)"

COPY setup.cfg pyproject.toml README.md LICENSE *.py py.typed ./
COPY src src
COPY blender_assets blender_assets
COPY evaluation evaluation
COPY generators generators
COPY loaders loaders
RUN pip install --no-cache-dir -c constraints.txt '.[all]'

# Frames, packs and results are written here: docker run -v "$PWD:/data" ...
WORKDIR /data
CMD ["candlelight", "--help"]
