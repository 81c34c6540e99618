"""Which GPU counts a model can be spread over, how, and why not: rules of vLLM (recipes at 8959cf64189c) and llama.cpp."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from engine.facts import choose
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.models import ModelSpec
from engine.policies import FitPolicy

FP8_BLOCK = 128  # block_n of FP8 block quantization: a shard of an expert must be a multiple of it
USUAL_NODE = 8
NODES_OF_A_NODE_POLICY = range(1, 17)
NODES_ABOVE_ONE = (2, 3, 4, 6, 8, 12)  # multiples on the pages of StudioTV, 2026-10-16: 16 24 32 48 64 96 GPUs


@dataclass(frozen=True, slots=True)
class Layout:
    """``tp`` tensor-parallel ranks in each of ``pp`` pipeline stages; ``ep`` ranks hold whole experts; ``even`` splits freely."""

    tp: int
    pp: int
    ep: int = 1
    even: bool = False
    note: str = ""

    @property
    def label(self) -> str:
        """As an operator writes it: TP8, TP8 EP8, TP8 x PP2, PP7; split for a free split."""
        if self.even:
            return "one" if self.pp == 1 else f"split {self.pp}"
        parts = [f"TP{self.tp}"] * (self.tp > 1 or self.pp == 1) + [f"PP{self.pp}"] * (self.pp > 1)
        return " x ".join(parts) + (f" EP{self.ep}" if self.ep > 1 else "")

    def largest_share(self, layers: int | None) -> Fraction:
        """Share of all weights on the fullest GPU: whole layers go to a stage, ``ceil(layers / pp) / layers / tp``."""
        if self.even or self.pp == 1 or not layers:
            return Fraction(1, self.pp * self.tp)
        return Fraction(-(-layers // self.pp), layers * self.tp)


@dataclass(frozen=True, slots=True)
class CountCheck:
    """A count and its layout, or the reason it is not legal."""

    gpu_count: int
    layout: Layout | None
    reason: str = ""


def candidate_counts(gpu: Gpu, policy: FitPolicy) -> tuple[int, ...]:
    """Counts worth asking for, rising: any within a node, whole nodes above it."""
    node = gpu.node_gpus if gpu.node_gpus > 1 else USUAL_NODE
    if policy.whole_nodes:
        whole = tuple(nodes * gpu.node_gpus for nodes in NODES_OF_A_NODE_POLICY)
        return (1, *whole) if policy.one_gpu and gpu.node_gpus > 1 else whole
    return (*range(1, node + 1), *(nodes * node for nodes in NODES_ABOVE_ONE))


def linked_gpus(gpu: Gpu, node: int) -> int:
    """GPUs one tensor-parallel group may span: a node, or two trays of four that share the NVLink of their rack (recipe of Kimi K3)."""
    return max(node, USUAL_NODE) if choose(gpu.facts, "rack_gpus") is not None else node


def check_count(
    model: ModelSpec, gpu: Gpu, weight_format: WeightFormat, gpu_count: int, policy: FitPolicy, engine: str, expert_parallel: bool = True
) -> CountCheck:
    """How ``gpu_count`` GPUs would share the model, or why they cannot."""
    if policy.whole_nodes and gpu_count % gpu.node_gpus and not (policy.one_gpu and gpu_count == 1):
        return CountCheck(gpu_count, None, f"{gpu_count} GPUs are no whole number of {gpu.node_gpus}-GPU nodes")
    if engine != "vllm":  # llama.cpp splits by layers or tensors over any count; memory rules alone ask nothing
        return CountCheck(gpu_count, Layout(tp=1, pp=gpu_count, even=True))
    node = gpu.node_gpus if gpu.node_gpus > 1 else USUAL_NODE
    if gpu_count > node and gpu_count % node:
        return CountCheck(gpu_count, None, f"{gpu_count} GPUs are no whole number of {node}-GPU nodes")
    group = linked_gpus(gpu, node)
    if gpu_count <= group:
        return _within_node(model, weight_format, gpu_count, policy, expert_parallel)
    node = node if gpu_count % group else group
    if reason := _stages_reason(model, gpu_count // node):
        return CountCheck(gpu_count, None, reason)
    check = _tensor_parallel(model, weight_format, node, expert_parallel)
    if check.layout is None:
        return CountCheck(gpu_count, None, check.reason)
    layout = Layout(tp=node, pp=gpu_count // node, ep=check.layout.ep, note=check.layout.note)
    return CountCheck(gpu_count, layout)


def legal_counts(
    model: ModelSpec, gpu: Gpu, weight_format: WeightFormat, policy: FitPolicy, engine: str, expert_parallel: bool = True
) -> tuple[int, ...]:
    """Counts the engine can spread the model over, rising; memory is not asked."""
    counts = candidate_counts(gpu, policy)
    checks = (check_count(model, gpu, weight_format, count, policy, engine, expert_parallel) for count in counts)
    return tuple(check.gpu_count for check in checks if check.layout is not None)


def tp_reason(model: ModelSpec, tp: int) -> str:
    """Why the heads forbid this tensor parallelism; "" where they allow it. Unknown heads allow powers of two."""
    if tp == 1:
        return ""
    if model.attention_heads is None and tp & (tp - 1):
        return f"the number of heads is not known and {tp} is no power of two"
    if model.attention_heads is not None and model.attention_heads % tp:
        return f"{model.attention_heads} heads do not divide by TP {tp}"
    for group in model.layer_groups:
        if group.kind == "gqa" and group.kv_heads and group.kv_heads % tp and tp % group.kv_heads:
            return f"{group.kv_heads} KV heads neither divide by TP {tp} nor divide it"
    return ""


def fp8_block_reason(model: ModelSpec, weight_format: WeightFormat, tp: int) -> str:
    """Why FP8 blocks forbid splitting the experts so; "" where they allow it."""
    if weight_format.id != "fp8" or model.experts is None or model.moe_intermediate is None:
        return ""
    if model.moe_intermediate % tp == 0 and model.moe_intermediate // tp % FP8_BLOCK == 0:
        return ""
    shard = Fraction(model.moe_intermediate, tp)
    return f"FP8 blocks: {model.moe_intermediate} / TP {tp} = {float(shard):g} is no multiple of {FP8_BLOCK}, only expert parallel works"


def _within_node(model: ModelSpec, weight_format: WeightFormat, count: int, policy: FitPolicy, expert_parallel: bool) -> CountCheck:
    check = _tensor_parallel(model, weight_format, count, expert_parallel)
    power_of_two = count & (count - 1) == 0
    if check.layout is not None or power_of_two or not policy.layer_split:
        return check
    if reason := _stages_reason(model, count):
        return CountCheck(count, None, reason)
    return CountCheck(count, Layout(tp=1, pp=count, note=f"{check.reason}: split by layers"))


def _tensor_parallel(model: ModelSpec, weight_format: WeightFormat, tp: int, expert_parallel: bool) -> CountCheck:
    reason = tp_reason(model, tp)
    if reason:
        return CountCheck(tp, None, reason)
    block = fp8_block_reason(model, weight_format, tp)
    if not block:
        return CountCheck(tp, Layout(tp=tp, pp=1))
    if expert_parallel and (model.experts or 0) >= tp:
        return CountCheck(tp, Layout(tp=tp, pp=1, ep=tp, note=block))
    return CountCheck(tp, None, block)


def _stages_reason(model: ModelSpec, stages: int) -> str:
    if not model.layers:
        return f"the number of layers is not known, {stages} pipeline stages need it"
    return f"{model.layers} layers do not fill {stages} pipeline stages" if stages > model.layers else ""
