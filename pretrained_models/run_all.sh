#!/usr/bin/env bash
# Every script once. `./run_all.sh --random-weights` needs neither the hub nor a folder.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-$(test -x .venv/bin/python && echo .venv/bin/python || echo python3)}
for script in gpt2 llama qwen3 gemma3 bert vit resnet vgg densenet whisper unet; do
    echo "== $script"
    "$PYTHON" -m "pretrained_models.$script" "$@"
done
