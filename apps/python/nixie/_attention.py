"""Attention of torch's CPU kernel as ops that become plans: what it gives, with the logarithms that its gradient reads.
torch's own decomposition is for graphs without gradients, and gives weights in their place."""

import math

import torch

aten = torch.ops.aten


def _weights_exponent(query, key, is_causal, attn_mask, scale):
    """[N, heads, L, S] in f32 at least: what the softmax of the weights is taken of; and the scale."""
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    exponent = (query @ key.transpose(-2, -1)) * scale
    if is_causal:
        there = torch.ones(exponent.shape[-2:], dtype=torch.bool, device=query.device).tril()
        exponent = torch.where(there, exponent, -math.inf)
    return exponent if attn_mask is None else exponent + attn_mask, scale


def _wide(*tensors):
    return [x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x for x in tensors]


def _for_each_head(query, *tensors):
    """Keys and values that several heads of queries share, for each of these."""
    return [x.repeat_interleave(query.size(1) // x.size(1), 1) if x.size(1) != query.size(1) else x for x in tensors]


def attention(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    """The weighted values [N, heads, L, E], stored as [L, N, heads, E], and the logarithms [N, heads, L] of the sums of weights."""
    q, k, v = _wide(query, *_for_each_head(query, key, value))
    exponent, _ = _weights_exponent(q, k, is_causal, attn_mask, scale)
    log_sums = exponent.logsumexp(-1)
    found = (exponent - _finite(log_sums)).exp() @ v
    return found.to(query.dtype).permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3), log_sums


def attention_gradients(grad, query, key, value, out, log_sums, dropout_p, is_causal, *, attn_mask=None, scale=None):
    """The gradients of query, key and value."""
    q, k, v, g, y = _wide(query, *_for_each_head(query, key, value), grad, out)
    exponent, scale = _weights_exponent(q, k, is_causal, attn_mask, scale)
    weights = (exponent - _finite(log_sums)).exp()
    slope = weights * (g @ v.transpose(-2, -1) - (g * y).sum(-1, keepdim=True)) * scale
    found = slope @ k, slope.transpose(-2, -1) @ q, weights.transpose(-2, -1) @ g
    return tuple(_summed(each, like).to(like.dtype) for each, like in zip(found, (query, key, value)))


def _finite(log_sums):
    """For rows without any weight, whose result is 0."""
    return torch.where(log_sums == -math.inf, 0.0, log_sums).unsqueeze(-1)


def _summed(gradient, like):
    return gradient if gradient.shape == like.shape else gradient.unflatten(1, (like.size(1), -1)).sum(2)


DECOMPOSITIONS = {
    aten._scaled_dot_product_flash_attention_for_cpu.default: attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: attention_gradients,
}
