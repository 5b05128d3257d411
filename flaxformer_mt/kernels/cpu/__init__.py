"""Kernels for CPUs: products, pages of keys and values, dropout bits, top k, sizes of searches."""

from flaxformer_mt.kernels.cpu.pages import Pages
from flaxformer_mt.kernels.cpu.product import product
from flaxformer_mt.kernels.cpu.top_k import top_k
from flaxformer_mt.kernels.hashed_dropout import dropout
from flaxformer_mt.kernels.search_sizes import SearchSizes
from flaxformer_mt.model.kernels import Kernels

KERNELS = Kernels("cpu", product=product, dropout=dropout, store=Pages, top_k=top_k)

SEARCH_SIZES = SearchSizes(
    min_program_length=64,
    max_hypotheses=160,
    few_sentences=32,
    max_hypotheses_of_few=10,
    groups_ahead=0,
)
"""An empty batch slot costs as much as a full one. So a few sentences share few slots. With more
than 160 hypotheses, latency rises and throughput does not (`benchmarks/ablations.md`). Programs
that run at the same time contend for CPU caches. So no group is dispatched ahead."""
