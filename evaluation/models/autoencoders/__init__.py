"""Variational autoencoders of images, whose codes the causal metrics score."""

from candlelight.evaluation.models.autoencoders.autoencoder_files import (
    TrainedAutoencoder as TrainedAutoencoder,
)
from candlelight.evaluation.models.autoencoders.autoencoder_files import load_autoencoder as load_autoencoder
from candlelight.evaluation.models.autoencoders.autoencoder_files import save_autoencoder as save_autoencoder
from candlelight.evaluation.models.autoencoders.code_discriminator import (
    CodeDiscriminator as CodeDiscriminator,
)
from candlelight.evaluation.models.autoencoders.conv_vae import ConvVAE as ConvVAE
