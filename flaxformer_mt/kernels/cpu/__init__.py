"""Kernels for CPUs: products, pages of keys and values, dropout bits."""

from flaxformer_mt.kernels.cpu.pages import Pages
from flaxformer_mt.kernels.cpu.product import product
from flaxformer_mt.kernels.hashed_dropout import dropout
from flaxformer_mt.model.kernels import Kernels

KERNELS = Kernels("cpu", product=product, dropout=dropout, store=Pages)
