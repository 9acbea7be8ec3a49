"""Transforms of torch.fft, spectrograms and their inverses on the C runtime equal eager torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from executorch_py.testing import assert_parity


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


class Call(nn.Module):
    def __init__(self, *functions: Callable[..., Any]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: torch.Tensor) -> list[Any]:
        return [f(*inputs) for f in self.functions]


fft = torch.fft
OF_REAL: list[Callable[[torch.Tensor], Any]] = [
    fft.fft,
    fft.rfft,
    fft.ihfft,
    fft.fft2,
    fft.rfft2,
    fft.rfftn,
    lambda x: fft.rfft(x, n=9, dim=1, norm="ortho"),
    lambda x: fft.fftn(x, dim=(0, 2), norm="forward"),
    lambda x: fft.rfft(x).abs(),
    lambda x: fft.rfft(x).real + fft.rfft(x).imag,
    lambda x: fft.irfft(fft.rfft(x) * fft.rfft(x).conj(), n=x.shape[-1]),
    lambda x: fft.fftshift(x) + fft.ifftshift(x),
    lambda x: x + fft.fftfreq(8, 0.5) + fft.rfftfreq(15),
    lambda x: torch.view_as_real(fft.fft(x)),
]
OF_COMPLEX: list[Callable[[torch.Tensor], Any]] = [
    fft.fft,
    fft.ifft,
    fft.irfft,
    fft.hfft,
    fft.ifft2,
    fft.ifftn,
    fft.irfft2,
    fft.irfftn,
    lambda z: fft.irfft(z, n=7, norm="ortho"),
    lambda z: fft.ifft(z, n=3, dim=0, norm="forward"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_models_with_transforms_of_real_numbers_equal_eager(dtype: torch.dtype) -> None:
    assert_parity(Call(*OF_REAL), (randn(2, 3, 8, dtype=dtype),))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_models_with_transforms_of_complex_numbers_equal_eager(dtype: torch.dtype) -> None:
    assert_parity(Call(*OF_COMPLEX), (randn(2, 3, 5, dtype=dtype),))


def spectrogram(x: torch.Tensor, **options: Any) -> torch.Tensor:
    window = torch.hann_window(16)
    return torch.stft(x, 16, 4, window=window, return_complex=True, **options)


def test_spectrograms_and_their_inverses_equal_eager() -> None:
    def both_ways(x: torch.Tensor) -> torch.Tensor:
        return torch.istft(spectrogram(x), 16, 4, window=torch.hann_window(16), length=64)

    def mel(x: torch.Tensor) -> torch.Tensor:
        power = spectrogram(x).abs() ** 2
        return torch.clamp(power, min=1e-6).log10()

    assert_parity(
        Call(
            both_ways,
            mel,
            spectrogram,
            lambda x: spectrogram(x, center=False, normalized=True, onesided=False),
        ),
        (randn(2, 64),),
    )


def test_the_number_of_rows_and_their_length_may_vary() -> None:
    batch, time = torch.export.Dim("batch", min=1, max=4), torch.export.Dim("time", min=32, max=200)

    class Spectrum(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            z = fft.rfft(x)
            return z.abs(), fft.irfft(z * 2, n=x.shape[-1]), fft.ifft2(z)

    assert_parity(Spectrum(), (randn(2, 60),), dynamic_shapes={"x": {0: batch, 1: time}})
