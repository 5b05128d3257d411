"""Kernels for TPUs: flash attention for long rows, dropout bits."""

from flaxformer_mt.kernels.hashed_dropout import dropout
from flaxformer_mt.kernels.product import product
from flaxformer_mt.kernels.tpu.attention import attend
from flaxformer_mt.model.kernels import Kernels

KERNELS = Kernels("tpu", attend=attend, product=product, dropout=dropout)
