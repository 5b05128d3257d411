"""Kernels for NVIDIA GPUs: attention by cuDNN, dropout bits, gradients of embeddings."""

from flaxformer_mt.kernels.gpu.attention import attend
from flaxformer_mt.kernels.gpu.embedding import embed
from flaxformer_mt.kernels.hashed_dropout import dropout
from flaxformer_mt.kernels.product import product
from flaxformer_mt.model.kernels import Kernels

KERNELS = Kernels("gpu", attend=attend, embed=embed, product=product, dropout=dropout)
