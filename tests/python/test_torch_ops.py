"""Torch's ops in torch.compile(backend="nixie") against torch: values, gradients, types and the plans that they are."""

import functools
import inspect
import math
import unittest

import nixie
from torch_case import TorchCase, functional, in_an_environment, list_of, nn, torch

InAnEnvironment = in_an_environment(__file__)


class TorchOps(TorchCase):
    def test_random_numbers(self):
        x = torch.zeros(64, 64, 8, 8)
        for name, function, mean, deviation, low, high in (
            ("rand", lambda x: torch.rand(x.shape), 0.5, 12**-0.5, 0, 1), ("randn_like", torch.randn_like, 0, 1, -8, 8), ("normal_", lambda x: x.clone().normal_(2, 3), 2, 3, -22, 26),
            ("uniform_", lambda x: x.clone().uniform_(-1, 3), 1, 4 * 12**-0.5, -1, 3), ("exponential_", lambda x: x.clone().exponential_(2), 0.5, 0.5, 0, 20),
            ("bernoulli", lambda x: torch.bernoulli(x + 0.25), 0.25, 0.1875**0.5, 0, 1), ("bernoulli_", lambda x: x.clone().bernoulli_(0.25), 0.25, 0.1875**0.5, 0, 1),
            ("halves", lambda x: torch.rand_like(x, dtype=torch.bfloat16), 0.5, 12**-0.5, 0, 255 / 256), ("rrelu", lambda x: -functional.rrelu(x - 1, 0.2, 0.6, True), 0.4, 0.4 * 12**-0.5, 0.2, 0.6),
            ("dropout", lambda x: functional.dropout(x + 1, 0.75), 1, 3**0.5, 0, 4), ("channels", lambda x: functional.dropout2d(x + 1, 0.75)[:, :, :1, :1], 1, 3**0.5, 0, 4),
            ("same in a channel", lambda x: functional.dropout2d(x + 1, 0.5).flatten(2).var(2), 0, 0, 0, 0), ("sum of two draws", lambda x: torch.rand_like(x) + torch.rand_like(x), 1, 6**-0.5, 0, 2),
            ("beside f64", lambda x: torch.rand_like(x, dtype=torch.float64).float(), 0.5, 12**-0.5, 0, 1)):
            with self.subTest(name):
                torch._dynamo.reset()
                run, found = torch.compile(function, backend="nixie"), []
                for seed in (1, 1, 2):
                    torch.manual_seed(seed)
                    found.append(run(x).float())
                self.assertTrue(torch.equal(found[0], found[1]))
                y = found[0]
                self.assertTrue(y.min() >= low and y.max() <= high)
                self.assertLess(abs(y.mean().item() - mean), 6 * deviation / y.numel() ** 0.5 + 1e-3)
                self.assertLess(abs(y.std().item() - deviation), 0.05 * deviation + 1e-6)
                if deviation:
                    self.assertFalse(torch.equal(y, found[2]))
                    self.assertLess(abs(torch.corrcoef(torch.stack([y.flatten()[1:], y.flatten()[:-1]]))[0, 1].item()), 0.07)

    def test_ops(self):
        x, w = torch.randn(3, 4, 6), torch.randn(3, 6, 5)
        image = torch.randn(2, 3, 10, 11)
        whole, mask = torch.arange(72, dtype=torch.int32).reshape(3, 4, 6) * 2**26, x > 0
        for function, given in (
            (lambda x: (x.sum(), x.mean(-1, keepdim=True), x.amax((0, 2)), x.amin(1), x.var(1), torch.var_mean(x, (0, 1), correction=0)[0]), (x,)),
            (lambda x: (x.var(1, keepdim=True), *torch.var_mean(x, (0, 2), keepdim=True), x.std(0, correction=0), x.argmax(1, keepdim=True), x.prod(2, keepdim=True)), (x,)),
            (lambda x, m: (x.sum(), m.sum(), x + 1, x // 2, x * m), (whole, mask)), (lambda x, w: torch.bmm(x, w) @ w.transpose(1, 2), (x, w)),
            (lambda x: (x[:, 1:, ::2] + x[:, :3, -1:], x.transpose(0, 2).reshape(6, -1), x.permute(2, 0, 1)[1], x.unsqueeze(1).expand(-1, 2, -1, -1)), (x,)),
            (lambda x: (x.clamp(min=0), x.clamp(max=0.5), x.clamp(-1, 1), torch.where(x > 0, x, 2.0), x.abs().sqrt(), x.exp().log1p(), x**3, 2 / x), (x,)),
            (lambda x: (functional.softmax(x.half(), 1, torch.float32), functional.log_softmax(x, 0), x.half() + 1, (x > 0) & (x < 1), ~(x > 0)), (x,)),
            (lambda x: (x.clone(), x + 1, x + 1, torch.full_like(x, 3), torch.cat([x, x], 2), x.gather(2, x.argsort(2)[:, :2])), (x,)),
            (lambda x: functional.conv1d(x, torch.ones(2, 4, 3), padding=2, dilation=2), (x,)),
            (lambda x: (functional.max_pool2d(x, 3, 2, 1, ceil_mode=True), functional.max_pool2d(x, (3, 2), (2, 3), ceil_mode=True),
                        functional.avg_pool2d(x, 3, 2, 1), functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                        functional.max_pool2d(x, 2, 2, 1, dilation=2), functional.max_pool2d(x, 3, 3, 1, dilation=(1, 2), ceil_mode=True),
                        functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True), functional.avg_pool2d(x, 3, (2, 3), 1, ceil_mode=True, count_include_pad=False),
                        functional.adaptive_avg_pool2d(x, (2, 3)), functional.adaptive_avg_pool2d(x, (7, 9)), functional.relu6(4 * x)), (image,)),
            (lambda x: (functional.max_pool2d(x, 3, 2, 1, ceil_mode=True), functional.avg_pool2d(x, (3, 2), 2, 1), functional.adaptive_avg_pool2d(x, (5, 3)), functional.adaptive_avg_pool2d(x, (7, 3))), (image[0],)),
            (lambda x: (functional.hardtanh(x, 0.0, 1.0) + x.clamp(0, 1) + functional.relu6(x) + functional.hardsigmoid(x)), (torch.tensor([-1.0, 0.0, 0.2, 1.0, 3.0, 6.0, 7.0]),)),
            (torch.sign, (torch.tensor([math.nan, -0.0, -2.0]),)),
            (lambda x: (functional.conv_transpose2d(x, torch.ones(3, 2, 3, 2), torch.ones(2), 2, 1, 1, dilation=(1, 2)),
                        functional.conv_transpose2d(x[:, :2], torch.arange(24.0).reshape(2, 3, 2, 2) / 10, stride=2, groups=2)), (image,)),
            (lambda x, w: functional.conv_transpose1d(x, w, stride=3, padding=1, output_padding=2), (x, torch.randn(4, 2, 4))),
            (lambda x, w: functional.conv_transpose3d(x[None], w, stride=(1, 2, 1)), (image, torch.randn(2, 2, 2, 3, 2))),
            *((functools.partial(functional.interpolate, mode=mode, align_corners=align, **size), (image,)) for mode in ("bilinear", "bicubic")
              for align in (False, True) for size in ({"scale_factor": 2}, {"size": (5, 13)})),
            (lambda x: (functional.gelu(x, approximate="tanh"), functional.elu(x, 0.7), functional.selu(x), x.remainder(0.7), x.repeat(2, 1, 3), x.cumsum(1), x.cumprod(2),
                        x.max(1)[0], *x.min(2, keepdim=True)[:1], x.argmax(), x.argmin(0), x.prod(), x.norm(), x.norm(1, 1), x.norm(math.inf, (0, 2)), x.sum(1, dtype=torch.float64)), (x,)),
            (lambda x: (x.half().sum(2, dtype=torch.float32), x.half().cumsum(0, dtype=torch.float32), (x > 0).cumsum(1), (x > 0).sum(0), torch.arange(3) * x[:, 0, :3]), (100 * x,)),
            (lambda i: (i % 5, i.remainder(-5), i.fmod(-5), i.roll(3, 1), i.cumsum(0, dtype=torch.int32)), (torch.arange(-36, 36).reshape(6, 12),)),
            (lambda w, i: (functional.embedding(i, w, padding_idx=1), w[i], w[:, i[0]], w[i[:1], i[:, :1]], w.index_select(1, i[1]), w[-1]), (torch.randn(7, 9), torch.tensor([[1, 0, 5], [1, -1, 6]]).abs())),
            (lambda x: (*x.sort(1), *x.sort(0, True)[:1], *x.topk(3), *x.topk(2, 1, largest=False), torch.sort(x)[0].relu() * x), (x,)),
            (lambda w, i, f: (functional.embedding_bag(i, w, torch.tensor([0, 2, 2]), mode="mean", padding_idx=3), functional.embedding_bag(i, w, torch.tensor([0, 3]), mode="sum", per_sample_weights=f),
                              functional.embedding_bag(i.reshape(2, 3), w, mode="max"), functional.embedding_bag(i, w, torch.tensor([0, 4, 6]), include_last_offset=True)),
             (torch.randn(7, 9), torch.tensor([5, 3, 0, 3, 6, 5]), torch.randn(6))),
            (lambda x, i: (x.gather(1, i), torch.zeros(3, 5, 6).scatter_add(1, i, x[:, :, :3]), x.index_add(2, i[0, 0], x[:, :, :3])), (x, torch.tensor([0, 3, 3]).expand(3, 4, 3))),
            (lambda x: (functional.pad(x, (2, 1, 3, 0), "reflect"), functional.pad(x, (1, 0, 2, 1), "replicate"), functional.instance_norm(x), functional.local_response_norm(x, 3),
                        functional.unfold(x, 3, padding=1)), (image,)),
            (lambda x: (functional.max_pool3d(x[None], (2, 3, 3), (1, 2, 3), 1, ceil_mode=True), functional.max_pool3d(x, 2, 1), functional.avg_pool3d(x[None], 2, (1, 2, 3), 1, True, False)), (image,)),
            (lambda x, i: (x * i.clamp(0.5, 2.5), i * 3 + 200, torch.where(i > 0, i, 0.5)), (x, torch.arange(-36, 36, dtype=torch.int8).reshape(3, 4, 6))),
            (lambda x: (functional.group_norm(x.reshape(0, 10, 3, 11), 2), functional.adaptive_max_pool2d(x, (2, 3)), functional.adaptive_avg_pool2d(x, (4, 3))), (image[:0],))):
            torch._dynamo.reset()
            given = [each.clone().requires_grad_(each.is_floating_point()) for each in given]
            with self.assertLogs("nixie.torch", "INFO") as logs:
                ours, theirs = torch.compile(function, backend="nixie")(*given), function(*given)
                torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
                for a, b in zip(*([each for each in found if each.requires_grad] for found in map(list_of, (ours, theirs)))):
                    g = torch.randn_like(a)
                    for x in (x for x in given if x.requires_grad):
                        found = [torch.autograd.grad(each, x, g, retain_graph=True, allow_unused=True)[0] for each in (a, b)]
                        if found[1] is not None:
                            self.close(*found)

    def test_keywords_of_ops(self):
        from nixie import _aten, _backend  # noqa: F401, which declares all of them

        for name, function in _aten.OPS.items():
            packet, _, overload = name.partition(".")
            found = getattr(torch.ops.aten, packet, None)
            if found is None or overload not in found.overloads():
                continue
            wanted = {each.name for each in getattr(found, overload)._schema.arguments if each.kwarg_only}
            if wanted:
                parameters = inspect.signature(function).parameters
                free = any(each.kind == each.VAR_KEYWORD for each in parameters.values())
                self.assertTrue(free or wanted <= set(parameters), (name, wanted, list(parameters)))

    def test_attention(self):
        def random(*shape, dtype=torch.float32):
            return torch.randn(*shape).to(dtype)

        for name, heads, dtype, options in (
            ("plain", 4, torch.float32, {}), ("causal", 4, torch.float32, {"is_causal": True}), ("scale", 4, torch.float64, {"scale": 0.3}),
            ("mask", 4, torch.float32, {"attn_mask": random(5, 7)}), ("mask of bools", 4, torch.float32, {"attn_mask": random(2, 1, 5, 7) > -1}),
            ("empty row", 4, torch.float32, {"attn_mask": (torch.arange(5)[:, None] > 0).expand(5, 7)}), ("shared heads", 2, torch.float32, {"enable_gqa": True}),
            ("bfloat16", 4, torch.bfloat16, {}), ("float16", 4, torch.float16, {"is_causal": True})):
            torch._dynamo.reset()
            given = [random(2, 4, 5, 8, dtype=dtype), random(2, heads, 7, 8, dtype=dtype), random(2, heads, 7, 8, dtype=dtype)]
            g, function = random(2, 4, 5, 8, dtype=dtype), functools.partial(functional.scaled_dot_product_attention, **options)
            found = []
            with self.assertLogs("nixie.torch", "INFO") as logs:
                for run in (torch.compile(function, backend="nixie"), function):
                    inputs = [x.clone().requires_grad_() for x in given]
                    y = run(*inputs)
                    y.backward(g)
                    found.append([y.detach().double(), *(x.grad.double() for x in inputs)])
            for ours, theirs in zip(*found):
                precision = 1e-4 if dtype.itemsize >= 4 else 2e-3 if dtype == torch.float16 else 2e-2
                torch.testing.assert_close(ours, theirs, rtol=precision, atol=precision, msg=lambda text: f"{name}: {text}")
            self.assertTrue(all("flash" not in line for line in logs.output), logs.output)

    def test_ops_of_nets(self):
        """Nothing stays in torch."""
        def in_place(x):
            y = x * 2
            functional.relu_(y[:, 1:])
            return y * x

        def put(x, key, value):
            y = x.sin()
            y[key] = value
            return y

        def sampled(x, **options):
            return functional.grid_sample(x, 1.2 * x[:, :2].permute(0, 2, 3, 1), **options)

        def together(*functions):
            return lambda x: torch.cat([function(x).flatten() for function in functions])

        rows, some = torch.tensor([3, 0, 2]), (torch.arange(2 * 4 * 3 * 6).reshape(2, 4, 3, 6) * 7) % 5
        weight_norm, spectral_norm = nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 3, 3)), nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5))
        for function in (
            *(functools.partial(sampled, mode=mode, padding_mode=padding, align_corners=align) for mode in ("bilinear", "nearest", "bicubic")
              for padding in ("zeros", "border", "reflection") for align in (False, True)),
            lambda x: functional.grid_sample(x[None], x[:1, :3].permute(0, 2, 3, 1).reshape(1, 1, 5, 6, 3), align_corners=False),
            *(functools.partial(functional.interpolate, size=size, mode=mode, antialias=True) for mode in ("bilinear", "bicubic") for size in ((3, 4), (9, 4))),
            together(lambda x: functional.adaptive_max_pool2d(x, (2, 3)), lambda x: functional.adaptive_max_pool2d(x, (3, 4)), lambda x: functional.adaptive_max_pool1d(x[0], 4),
                     lambda x: functional.adaptive_max_pool3d(x, (1, 4, 2)), lambda x: functional.adaptive_avg_pool3d(x, (3, 2, 2)), lambda x: functional.adaptive_avg_pool3d(x, 1)),
            together(lambda x: functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape),
                     lambda x: functional.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True)[0], lambda x: functional.avg_pool2d(x, 3, 2, 1, divisor_override=4)),
            together(lambda x: functional.pad(x, (2, 1, 0, 3), "replicate"), lambda x: functional.pad(x[0], (2, 1), "replicate"), lambda x: functional.pad(x, (1, 2, 0, 1), "circular")),
            nn.Sequential(nn.BatchNorm2d(4).eval(), nn.ReLU(), nn.Conv2d(4, 3, 3), nn.BatchNorm2d(3, affine=False).eval()), weight_norm, spectral_norm.eval(),
            lambda x: functional.bilinear(x, x.flip(0), torch.ones(3, 6, 6)) + torch.addmv(x[0, 0, 0, :5], x[0, 0], x[1, 1, 1]).sum() + torch.addbmm(x[0, 0, :5, :5], x[0], x[1].mT).sum(),
            together(*(functools.partial(lambda p, x: torch.cdist(x, x[:, :, :3] + 1, p), p) for p in (0.5, 1.0, 2.0, 3.0, math.inf)), lambda x: functional.pdist(x[0, 0], 1.5),
                     lambda x: functional.cosine_similarity(x[:, :, :, None], x[:, :, None], -1)),
            together(*(functools.partial(lambda p, x: x.norm(p, 2), p) for p in (0, 0.5, 3, -math.inf)), lambda x: x.median(), lambda x: x.median(1)[0], lambda x: x.kthvalue(2, 3, True)[0],
                     lambda x: torch.where(x > 0.5, math.nan, x).nanmedian(2)[0], lambda x: x.cummax(2)[0], lambda x: x.cummin(3)[0], lambda x: x.max() * x.min()),
            together(lambda x: put(x, (slice(None), rows), x[:, :3]), lambda x: put(x, (0, rows), x[0, 0]), lambda x: put(x, x > 0.5, 2.0), lambda x: x.masked_scatter(x > 0.5, x.flip(0)),
                     lambda x: x.contiguous().index_copy(1, rows, x[:, 1:]), lambda x: x.contiguous().index_fill(2, rows, 3.0), lambda x: x.put(rows, x[0, 0, 0, :3]), lambda x: x.take(rows)),
            together(lambda x: x.scatter(2, torch.tensor([4, 1, 2])[:, None].expand(2, 4, 3, 6), x[:, :, :3].sin()), lambda x: x.scatter(2, some, 0.5),
                     *(functools.partial(lambda kind, own, x: x.scatter_reduce(2, some, x[:, :, :3].sin().clone(), kind, include_self=own), kind, own)
                       for kind in ("sum", "prod", "mean", "amax", "amin") for own in (True, False))),
            together(lambda x: x.diagonal(1, 2, 3), lambda x: torch.diagonal_scatter(x, x[..., 0], -1, 3, 2), lambda x: x.unfold(2, 3, 1).unfold(3, 2, 2), lambda x: torch.einsum("ncii->nc", x[..., :5]),
                     lambda x: x[:, :, torch.tril_indices(5, 5)[0], torch.tril_indices(5, 5)[1]] * torch.hann_window(15), lambda x: (x * 2).contiguous().as_strided((4, 5), (3, 2), 1)),
            together(torch.exp2, torch.erfc, lambda x: x.clamp(x.flip(0), 1 + x.flip(0)), lambda x: x * (x > 0).any(1, True) * (x > -1).all() * x.signbit()),
            together(*(functools.partial(lambda function, x: function(x[0, 0, 0, 0]), function) for function in (
                lambda x: x.softmax(0), lambda x: x.sum(0), lambda x: x.cumsum(0), lambda x: x.sort(0)[0], lambda x: x.squeeze(0), lambda x: x.amax(-1), lambda x: x.gather(0, torch.tensor(0))))),
            lambda x: x * (10 * x.detach()).long().div(3, rounding_mode="trunc") + (10 * x.detach()).long() // -4 + (10 * x.detach()).long() ** 3 / 7 + torch.bucketize(x.detach(), torch.tensor([-1.0, 0.5])),
            lambda x: torch.cat([torch.tensor([]), torch.cat([x.square(), x.new_empty(0)], -2), x.sin()], -2).square(),
            lambda x: functional.leaky_relu(x, 0.2), lambda x: torch.cat(torch.split(x.square(), [1, 3], 1)[::-1], 1) * x, in_place,
            lambda x: functional.pad(x, (1, 0, 0, 2), value=3.0).square(), lambda x: x.flip(2, 3) * x, lambda x: (x.tan() + x.atan() + x.sinh()).sum(1),
            lambda x: functional.interpolate(x * 2, scale_factor=2).square(), lambda x: functional.interpolate(x, size=(7, 9)).square(),
            lambda x: functional.interpolate(x, size=(4, 3)).square()):
            for form in (torch.contiguous_format, torch.channels_last):
                torch._dynamo.reset()
                x, found = torch.randn(2, 4, 5, 6).to(memory_format=form), []
                with self.assertLogs("nixie.torch", "INFO") as logs:
                    for run in (torch.compile(function, backend="nixie"), function):
                        given = x.clone().requires_grad_()
                        y = run(given)
                        found.append((y.detach(), torch.autograd.grad(y.square().sum(), given)[0]))
                        with torch.no_grad():
                            self.close(run(x), y.detach())
                for ours, theirs in zip(*found):
                    self.close(ours, theirs)
                self.assertEqual({line.split(":", 2)[2] for line in logs.output}, {"1 plans; in torch: nothing"})

    def test_results_that_are_views(self):
        """Also where their sizes are symbols, of which torch makes results anew by their strides."""
        for function in (lambda x: x[:, x.shape[1] // 2 :], lambda x: x[:1].permute(0, 2, 1).reshape(x.shape[2], -1), lambda x: x.view(x.shape[0], 2, x.shape[1] // 2, -1).permute(0, 2, 1, 3),
                         lambda x: (x * 2, x.mT, x.mT + 1), lambda x: x.split(x.shape[1] // 2, 1), lambda x: x[1].unbind(1), lambda x: x.tanh().view(-1), lambda x: (lambda y: (y, y[:, x.shape[1] // 2 :], y.mT))(x * 2)):
            for is_dynamic in (False, True):
                for needs_gradient in (False, True):
                    torch._dynamo.reset()
                    x = torch.randn(3, 4, 6, requires_grad=needs_gradient)
                    for ours, theirs in zip(*(list_of(run(x)) for run in (torch.compile(function, backend="nixie", dynamic=is_dynamic), function))):
                        torch.testing.assert_close(ours, theirs)
                        self.assertEqual(ours.stride(), theirs.stride())


if __name__ == "__main__":
    unittest.main()
