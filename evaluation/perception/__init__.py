"""Perceptual distances of images: networks that were fitted to what people see."""

from evaluation.perception.lpips import LPIPS as LPIPS
from evaluation.perception.lpips import load_lpips as load_lpips
