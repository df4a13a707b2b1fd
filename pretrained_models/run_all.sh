#!/usr/bin/env bash
# Run every script once. With --random-weights, nothing is downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-$(test -x .venv/bin/python && echo .venv/bin/python || echo python3)}
for script in gpt2 llama qwen3 gemma3 bert vit resnet vgg densenet whisper unet; do
    echo "== $script"
    "$PYTHON" -m "pretrained_models.$script" "$@"
done
