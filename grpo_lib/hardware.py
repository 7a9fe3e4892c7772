"""GPUs and models as the few numbers that decide how long a step takes."""

from dataclasses import dataclass

__all__ = ["GPUS", "SHAPES", "GPU", "Shape"]


@dataclass(frozen=True)
class GPU:
    """One GPU's data sheet. bandwidth: of its memory, bytes/s. flops: dense 16-bit, 1/s. link: one way, bytes/s."""

    bandwidth: float
    flops: float
    link: float


@dataclass(frozen=True)
class Shape:
    """What of a dense transformer counts here.

    parameters: W. layers: n. width: query heads times head size, d. kv_width: key heads times head size, smaller than d
    where heads share keys. number_bytes: of a weight and of a cached number, 2 for 16 bits.
    """

    parameters: float
    layers: int
    width: int
    kv_width: int
    number_bytes: int = 2

    @property
    def weight_bytes(self):
        return self.number_bytes * self.parameters

    @property
    def cache_bytes(self):
        """Bytes of keys and values of one token in all layers."""
        return 2 * self.layers * self.kv_width * self.number_bytes

    def forward_flops(self, length):
        """Operations of one row of so many tokens: 2 W S for the weights, 2 n d S² for causal attention.

        >>> f"{Shape(1e9, 10, 1000, 500).forward_flops(1000):.3g}"
        '2.02e+12'
        """
        return 2 * self.parameters * length + 2 * self.layers * self.width * length**2


# NVIDIA's data sheets: T4 (2019), L4 (2023), A100 (2021; SXM), H100 (2023; SXM), H200 (2024; SXM). Dense, which is half
# of what is printed "with sparsity". The link is one direction: half of NVLink's total; PCIe x16 for T4 (gen 3), L4.
GPUS = {
    "T4": GPU(bandwidth=320e9, flops=65e12, link=16e9),
    "L4": GPU(bandwidth=300e9, flops=121e12, link=32e9),
    "A100 40 GB": GPU(bandwidth=1555e9, flops=312e12, link=300e9),
    "A100 80 GB": GPU(bandwidth=2039e9, flops=312e12, link=300e9),
    "H100": GPU(bandwidth=3350e9, flops=989e12, link=450e9),
    "H200": GPU(bandwidth=4800e9, flops=989e12, link=450e9),
}
# From each model's config.json, OPT from table 1 of arXiv:2205.01068; the number of parameters as its makers give it.
SHAPES = {
    "Qwen2.5-0.5B": Shape(0.494e9, layers=24, width=896, kv_width=128),
    "Qwen2.5-7B": Shape(7.62e9, layers=28, width=3584, kv_width=512),
    "Llama-3.1-8B": Shape(8.03e9, layers=32, width=4096, kv_width=1024),
    "OPT-6.7B": Shape(6.7e9, layers=32, width=4096, kv_width=4096),
    "OPT-13B": Shape(13e9, layers=40, width=5120, kv_width=5120),
    "OPT-30B": Shape(30e9, layers=48, width=7168, kv_width=7168),
    "OPT-66B": Shape(66e9, layers=64, width=9216, kv_width=9216),
    "OPT-175B": Shape(175e9, layers=96, width=12288, kv_width=12288),
    "Qwen3-32B": Shape(32.8e9, layers=64, width=8192, kv_width=1024),
}
