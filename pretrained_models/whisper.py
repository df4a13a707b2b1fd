"""Whisper: transcribe speech. `python -m pretrained_models.whisper --audio speech.wav`."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoProcessor, WhisperConfig, WhisperForConditionalGeneration

from pretrained_models import arguments
from pretrained_models.text import ByteTokenizer

NAME = "openai/whisper-tiny"
RATE = 16_000
SMALL = WhisperConfig(
    vocab_size=ByteTokenizer.vocab_size,
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    num_mel_bins=16,
    max_source_positions=50,
    max_target_positions=128,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
    suppress_tokens=None,
    begin_suppress_tokens=None,
)


def load_audio(path: str | None) -> np.ndarray:
    """Samples of a 16-bit .wav file at 16 kHz, or two seconds of a rising tone."""
    if path is None:
        time = np.arange(2 * RATE) / RATE
        return (0.3 * np.sin(2 * np.pi * (220 + 110 * time) * time)).astype(np.float32)
    with wave.open(path) as file:
        if file.getframerate() != RATE or file.getsampwidth() != 2:
            raise ValueError(
                f"{path}: expected 16-bit samples at {RATE} Hz (convert with ffmpeg -ar {RATE})"
            )
        samples = np.frombuffer(file.readframes(file.getnframes()), dtype=np.int16)
        channels = samples.reshape(-1, file.getnchannels())
    return channels.mean(axis=1).astype(np.float32) / 32768


def rough_features(audio: np.ndarray, bins: int, frames: int) -> torch.Tensor:
    """A spectrogram for models with random weights, which have no feature extractor."""
    spectrum = torch.stft(
        torch.from_numpy(audio), 400, 160, window=torch.hann_window(400), return_complex=True
    )
    features = torch.nn.functional.interpolate(
        spectrum.abs()[None, None], (bins, frames), mode="bilinear"
    )
    return features[0].clamp(min=1e-5).log10()


def main(argv: Sequence[str] | None = None) -> str:
    parser = arguments.parser(__doc__, NAME, arguments.HUB_OR_FOLDER)
    parser.add_argument("--audio", help="a .wav file; by default, a rising tone")
    parser.add_argument(
        "--tokens", type=int, default=48, help="the largest number of tokens to generate"
    )
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    audio = load_audio(args.audio)
    if args.random_weights:
        decoder: Any = ByteTokenizer()
        model: Any = WhisperForConditionalGeneration(SMALL)
        features = rough_features(audio, SMALL.num_mel_bins, 2 * SMALL.max_source_positions)
    else:
        decoder = AutoProcessor.from_pretrained(args.model)
        model = WhisperForConditionalGeneration.from_pretrained(args.model)
        features = decoder(audio, sampling_rate=RATE, return_tensors="pt").input_features
    arguments.compile_in_place(model, args)
    arguments.compile_in_place(model.get_encoder(), args)  # `generate` calls it on its own
    with torch.no_grad():
        ids = model.generate(features, max_new_tokens=args.tokens, cache_implementation="static")
    text = decoder.decode(ids[0], skip_special_tokens=True)
    print(text)
    arguments.report(args)
    return text


if __name__ == "__main__":
    main()
