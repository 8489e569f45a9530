"""nixie.torch against torch: functions of its tensors, layers in place of its own, and whole nets by torch.compile."""

import contextlib
import copy
import doctest
import functools
import importlib.util
import inspect
import io
import pathlib
import runpy
import unittest
import unittest.mock

import nixie
from torch_case import DEVICES, TorchCase, functional, in_an_environment, list_of, nn, nt, torch

InAnEnvironment = in_an_environment(__file__)


def net():
    class Block(nn.Module):
        def __init__(self, channels, out, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
            self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
            self.down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            y = functional.relu(self.bn1(self.conv1(x)))
            return functional.relu(self.bn2(self.conv2(y)) + self.down(x))

    return nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(16, 10))


def mixed():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.group, self.layer, self.depthwise = nn.GroupNorm(2, 8), nn.LayerNorm(8), nn.Conv2d(8, 8, 3, padding=1, groups=8)
            self.out = nn.Linear(16 * 8 * 8, 10)

        def forward(self, x):
            y = functional.silu(self.group(x)) + functional.hardswish(self.depthwise(x)) + functional.gelu(x) + functional.relu6(x)
            y = y * torch.sigmoid(functional.adaptive_avg_pool2d(y, 1))
            y = self.layer(torch.cat([y, functional.avg_pool2d(y, 3, 1, 1)], 1))
            return self.out(torch.logcumsumexp(y, 1).flatten(1))

    return nn.Sequential(nn.Conv2d(3, 8, 4, 4), Mixed())


class Torch(TorchCase):
    def test_functions(self):
        for device in DEVICES:
            for last in (False, True):
                x = torch.randn(2, 4, 6, 6, device=device)
                x = x.to(memory_format=torch.channels_last) if last else x
                w, b = torch.randn(8, 2, 3, 3, device=device), torch.randn(8, device=device)
                m, v = torch.randn(5, 6, device=device), torch.randn(5, device=device)
                for name, ours, theirs, given in (
                    ("conv2d", lambda x, w, b: nt.conv2d(x, w, b, 2, 1, 1, 2), lambda x, w, b: functional.conv2d(x, w, b, 2, 1, 1, 2), (x, w, b)),
                    *((f"conv2d {words}", functools.partial(nt.conv2d, groups=2, **words), functools.partial(functional.conv2d, groups=2, **words), (x, w, b))
                      for words in ({"padding": "valid"}, {"padding": "same"}, {"padding": "same", "dilation": (1, 2)})),
                    ("even window", lambda x, w: nt.conv2d(x, w, padding="same"), lambda x, w: functional.conv2d(x, w, padding="same"), (x[:, :2], w[:, :, :2])),
                    ("one image", lambda x, w: nt.conv2d(x[0], w, groups=2), lambda x, w: functional.conv2d(x[0], w, groups=2), (x, w)),
                    ("linear", nt.linear, functional.linear, (x, m, v)), ("relu", nt.relu, functional.relu, (x,)), ("gelu", nt.gelu, functional.gelu, (x,)),
                    ("softmax", nt.softmax, lambda x: functional.softmax(x, -1), (x,)),
                    ("max_pool2d", lambda x: nt.max_pool2d(x, 3, 2, 1), lambda x: functional.max_pool2d(x, 3, 2, 1), (x,)),
                    ("avg_pool2d", lambda x: nt.avg_pool2d(x, 2), lambda x: functional.avg_pool2d(x, 2), (x,)),
                    ("max_pool2d of all options", lambda x: nt.max_pool2d(x, 3, 2, 1, 2, True), lambda x: functional.max_pool2d(x, 3, 2, 1, 2, True), (x,)),
                    ("avg_pool2d of all options", lambda x: nt.avg_pool2d(x, 3, 2, 1, True, False), lambda x: functional.avg_pool2d(x, 3, 2, 1, True, False), (x,)),
                    ("of one image", lambda x: nt.avg_pool2d(nt.max_pool2d(x[0], 2), 3), lambda x: functional.avg_pool2d(functional.max_pool2d(x[0], 2), 3), (x,))):
                    found = []
                    for function, place in ((ours, device), (theirs, "cpu")):  # torch's poolings of channels-last images on a GPU have wrong gradients
                        inputs = [each.to(place, copy=True).requires_grad_() for each in given]
                        y = function(*inputs)
                        (y * y).sum().backward()
                        found.append([y.detach().cpu(), *(each.grad.cpu() for each in inputs)])
                    for a, b in zip(*found):
                        self.close(a, b, name)
                self.assertEqual(nt.relu(x).is_contiguous(memory_format=torch.channels_last), last)

    def test_errors(self):
        x = torch.ones(2)
        for what, error, text in (
            (lambda: nt.relu(x.numpy()), TypeError, "given a ndarray, expected a tensor"),
            (lambda: nt.function(lambda x, k: x * k)(x, 3.0), TypeError, "given a float, expected a tensor; further arguments are named"),
            (lambda: nt.function(lambda x: (x, x))(x), TypeError, "the function returns a tuple, expected one array"),
            (lambda: nt.conv2d(x[None, None, None], x[None, None, None], padding="same", stride=2), ValueError, "'same' with stride 2, expected 1"),
            (lambda: torch.func.vmap(nt.relu)(x), RuntimeError, "functorch"),
        ):
            with self.assertRaisesRegex(error, text):
                what()

    def test_shares_memory(self):
        x = torch.arange(4.0)
        self.assertEqual(nixie.from_dlpack(x).numpy().ctypes.data, x.data_ptr())
        with self.assertRaises((BufferError, RuntimeError)):
            nixie.from_dlpack(torch.ones(2, requires_grad=True))
        y = nixie.arange(4.0).compute()
        self.assertEqual(torch.from_dlpack(y).data_ptr(), y.numpy().ctypes.data)

    def test_tensors_are_operands(self):
        for device in DEVICES:
            x, array = torch.tensor([1.0, -2.0], device=device), nixie.ones(2, device=device)
            f = nixie.compile(lambda x, y: (x * y).sum())
            for use in (lambda: array + x, lambda: x + array, lambda: x @ array, lambda: array * x.half(), lambda: nixie.maximum(x, array), lambda: nixie.exp(x), lambda: f(x, array), lambda: f(x, x),
                        lambda: nixie.grad(lambda y: (y * x).sum())(array)):
                found = use()
                self.assertIsInstance(found, nixie.Array)
                self.assertEqual(found.device, device)
                kept = torch.tensor(found.numpy())
                y = array + x
                x += 1  # what was built before reads the old elements
                self.assertEqual(y.tolist(), (x.cpu()).tolist())
                x -= 1
                self.assertEqual(use().tolist(), kept.tolist())
            with self.assertRaises((BufferError, RuntimeError)):
                array + torch.ones(2, device=device, requires_grad=True)
        whole = nixie.arange(4.0)
        whole[torch.tensor([1, 2])] = torch.tensor([5.0, 6.0])
        whole[torch.tensor([True, False, False, False])] = 9
        self.assertEqual(whole.tolist(), [9, 5, 6, 3])
        for key in (torch.tensor([3, 0]), (torch.tensor([3, 0]), None), torch.tensor([True, False, True, False]), torch.tensor(1), torch.tensor([[0, 1]])):
            self.assertEqual(whole[key].tolist(), torch.tensor(whole.tolist())[key].tolist())
        for dtype in (torch.float16, torch.bfloat16, torch.float8_e5m2, torch.int64, torch.int16, torch.uint16, torch.uint64, torch.bool):
            self.assertEqual(f"torch.{nixie.zeros(2, dtype=dtype).dtype}", str(dtype))
        self.assertTrue(nixie.float32 == torch.float32)
        with self.assertRaisesRegex(ValueError, "dtype complex64 is unknown"):
            nixie.zeros(2, dtype=torch.complex64)

    def test_tensor_of_an_array(self):
        for device in DEVICES:
            for name in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"):
                array = (nixie.arange(6, device=device) % 2).astype(name).reshape(2, 3)
                found, expected = nt.tensor(array), torch.from_dlpack(array)
                self.assertEqual((str(found.dtype), found.shape, found.stride()), (f"torch.{name}", (2, 3), (3, 1)))
                self.assertEqual((found.device, found.data_ptr()), (expected.device, expected.data_ptr()))
                del array, expected
                self.assertEqual(found.float().tolist(), [[0, 1, 0], [1, 0, 1]])
        with self.assertRaisesRegex(TypeError, "expected an array of nixie, found a list"):
            nt.tensor([1.0])
        with self.assertRaisesRegex(ValueError, "int.* has no __dlpack_c_exchange_api__"):
            nixie._core.to_object(nixie.ones(1), int)

    def test_memory_is_used_again_behind_its_readers(self):
        for device in DEVICES:
            f, matrix, means = nixie.compile(lambda x: x + 1), torch.eye(1024, device=device), []
            for on in (contextlib.nullcontext(), *([torch.cuda.stream(torch.cuda.Stream())] if device == "cuda" else []), contextlib.nullcontext()):
                with on:
                    for i in range(20):
                        y = nt.tensor(f(nixie.full(1 << 18, float(i), device=device)))
                        matrix = matrix @ matrix  # keeps a GPU from what comes next
                        means.append(y.mean())
                        del y
                if device == "cuda":
                    torch.cuda.synchronize()
            self.assertEqual([each.item() for each in means], [i + 1 for i in range(20)] * (len(means) // 20))

    def test_parts_of_tensors(self):
        for device in DEVICES:
            x = torch.arange(9.0, device=device)
            for part in (x[1:], x[::2], x[:0], x[3], x.reshape(3, 3).T):
                self.close(nt.relu(part), part)

    def train(self, model, x, labels, steps=3):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    def test_replace(self):
        for device in DEVICES:
            ours = net().to(device)
            theirs = copy.deepcopy(ours)
            x, labels = torch.randn(4, 3, 32, 32, device=device), torch.tensor([0, 1, 2, 3], device=device)
            self.assertEqual(list(nt.replace(ours).state_dict()), list(theirs.state_dict()))
            self.close(self.train(ours, x, labels), self.train(theirs, x, labels))

    def test_compile(self):
        for device in DEVICES:
            for make in (net, mixed):
                for last in (False, True):
                    torch._dynamo.reset()
                    form = torch.channels_last if last else torch.contiguous_format
                    ours = make().to(device).to(memory_format=form)
                    theirs = copy.deepcopy(ours)
                    x = torch.randn(4, 3, 32, 32, device=device).to(memory_format=form)
                    labels = torch.tensor([0, 1, 2, 3], device=device)
                    with self.assertLogs("nixie.torch", "INFO") as logs:
                        self.close(self.train(torch.compile(ours, backend="nixie"), x, labels), self.train(theirs, x, labels), make.__name__)
                    self.assertEqual("logcumsumexp" in "".join(logs.output), make is mixed)
                    for (name, a), (_, b) in zip(ours.state_dict().items(), theirs.state_dict().items()):
                        self.close(a, b, name, 5e-3)
                    ours.eval(), theirs.eval()
                    with torch.no_grad():
                        self.close(torch.compile(ours, backend="nixie")(x), theirs(x), make.__name__, 5e-3)

    def test_whole_net_is_two_plans(self):
        for form in (torch.contiguous_format, torch.channels_last):
            model = torch.compile(net().to(memory_format=form), backend="nixie")
            with self.assertLogs("nixie.torch", "INFO") as logs:
                model(torch.randn(2, 3, 32, 32).to(memory_format=form)).sum().backward()
            self.assertEqual([line.split(":", 2)[2] for line in logs.output], ["1 plans; in torch: nothing"] * 2)

    def plans_of(self, model, x):
        """The plans of two training steps, with the addresses that each call handed over."""
        plans, make = [], nixie._core.ExternalPlan

        class Recorded:
            def __init__(self, *given):
                self.plan, self.calls = make(*given), []
                plans.append(self)

            def __getattr__(self, name):
                return getattr(self.plan, name)

            def __call__(self, *given):
                self.calls.append(given)
                return self.plan(*given)

        with unittest.mock.patch.object(nixie._core, "ExternalPlan", Recorded):
            compiled = torch.compile(model, backend="nixie")
            for _ in range(2):
                model.zero_grad()
                compiled(x).sum().backward()
        return plans

    def test_hands_over_without_copies(self):
        model, x = net(), torch.randn(2, 3, 32, 32)
        mean = model[1].running_mean.clone()
        forward, backward = self.plans_of(model, x)
        own = {each.data_ptr() for each in (x, *model.parameters(), *model.buffers())}
        for given in forward.calls:
            self.assertLessEqual(set(given[0]), own)
        first, second = forward.calls
        self.assertEqual(first[1][:-1], second[1][:-1], "what only the backward pass gets is written where it was")
        self.assertLessEqual(len(set(backward.calls[1][0]) - own - set(second[1])), 1, "only the gradient is new")
        copies = [[label for label in plan.kernels if label.startswith("copy")] for plan in (forward, backward)]
        self.assertEqual(copies, [[], []], "two batch norms that are added have one gradient of their biases, which its kernel stores in two tensors")
        self.assertFalse(torch.equal(model[1].running_mean, mean), "running statistics are written in place")
        self.assertEqual((len(forward.kernels), len(backward.kernels)), (15, 15))

    def test_saves_concatenations_alone(self):
        class Dense(nn.Module):
            def __init__(self, is_nested):
                super().__init__()
                self.is_nested = is_nested
                self.layers = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, 8, 3, padding=1)) for c in (16, 24, 32))

            def forward(self, x):
                parts = [x]
                for layer in self.layers:
                    whole = torch.cat(parts, 1)
                    parts = [*([whole] if self.is_nested else parts), layer(whole)]
                return torch.cat(parts, 1).sum((2, 3))

        for is_nested in (False, True):
            ours, x = Dense(is_nested), torch.randn(2, 16, 5, 7)
            theirs = copy.deepcopy(ours)
            forward, _ = self.plans_of(ours, x)
            channels = sorted(sizes[1] for sizes, _, _ in forward.plan.results if len(sizes) == 4)
            self.assertEqual(channels, [16, 24, 32, 32], "of three ReLUs, and what is concatenated before the last")
            for _ in range(2):
                theirs.zero_grad()
                theirs(x).sum().backward()
            for a, b in zip(ours.parameters(), theirs.parameters()):
                self.close(a.grad, b.grad, "float32")

    def test_linear_layers_of_more_axes(self):
        """An activation is computed by the product's kernel, forward and backward, though views lie between them."""
        model, x = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 5), nn.SiLU()), torch.randn(2, 3, 4, 6)
        forward, backward = self.plans_of(model, x)
        self.assertEqual(forward.kernels, ["matmul + add + gelu", "matmul + add + sigmoid + mul"])
        others = [label for label in backward.kernels if "matmul" not in label and "sum" not in label]
        self.assertEqual(len(others), 1, "the last activation's gradient, which follows no product")
        for run in (model, torch.compile(model, backend="nixie")):
            model.zero_grad()
            y = run(x)
            y.square().sum().backward()
            found = [y.detach(), *(each.grad for each in model.parameters())]
            if run is not model:
                for ours, theirs in zip(found, before):
                    self.close(ours, theirs)
            before = found

    def test_holds_results_of_two_calls(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
        compiled, x, y = torch.compile(model, backend="nixie"), torch.randn(8, 4), torch.randn(8, 4)
        for run in (compiled, compiled, model):
            model.zero_grad()
            (run(x) + run(y)).sum().backward()
            found = [each.grad for each in model.parameters()]
            if run is model:
                for a, b in zip(before, found):
                    self.close(a, b)
            before = found

    def test_part_that_stays_in_torch(self):
        class Sorted(nn.Module):
            def forward(self, x):
                return x.sort(1)[0]

        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), Sorted(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4, momentum=0.5))
        theirs, x = copy.deepcopy(model), torch.randn(4, 3, 8, 8)
        with self.assertLogs("nixie.torch", "INFO") as logs:
            torch.compile(model, backend="nixie")(x).sum().backward()
        self.assertNotIn("copy_", "".join(logs.output))
        theirs(x)
        for (name, ours), (_, other) in zip(model.named_buffers(), theirs.named_buffers()):
            self.close(ours, other, name)

    def test_dropout(self):
        model = torch.compile(nn.Sequential(nn.Dropout(0.25), nn.Dropout(0.5)), backend="nixie")
        x, found = torch.ones(64, 64, requires_grad=True), []
        with self.assertLogs("nixie.torch", "INFO") as logs:
            model(x)
        self.assertEqual(logs.output[0].split(":", 2)[2], "1 plans; in torch: aten.randint.low (no op of nixie)")
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            y = model(x)
            (gradient,) = torch.autograd.grad(y.sum(), x)
            self.assertTrue(torch.equal(gradient, y))
            self.close(y.unique(), torch.tensor([0.0, 1 / (0.75 * 0.5)]))
            self.assertLess(abs((y > 0).float().mean().item() - 0.75 * 0.5), 0.03)
            found.append(y.detach().clone())
        self.assertTrue(torch.equal(found[0], found[1]))
        self.assertFalse(torch.equal(found[0], found[2]))
        self.assertFalse(torch.equal(model(x), model(x)))

    def test_changes_its_argument(self):
        for name, function in (("result", lambda x: x.add_(1)), ("result and another", lambda x: (x.add_(1), x * 2)), ("argument", lambda x: (x.mul_(3), x)[1]),
                               ("view", lambda x: x.add_(1).view(-1)), ("part", lambda x: (x[0].zero_(), x.sum())[1]),
                               ("nothing else", lambda x: (x.add_(1), ())[1]), ("another's elements", lambda x: (x.copy_(torch.arange(3.0)), ())[1])):
            found = []
            for each in (function, torch.compile(function, backend="nixie")):
                x = torch.ones(2, 3)
                found.append([x, *list_of(each(x))])
            for a, b in zip(*found):
                self.close(b, a, name)
            self.assertEqual(*([each.data_ptr() == of[0].data_ptr() for each in of] for of in found), name)

    def test_half(self):
        torch._dynamo.reset()
        ours, x = net().to(memory_format=torch.channels_last), torch.randn(4, 3, 32, 32).to(memory_format=torch.channels_last)
        theirs = copy.deepcopy(ours)
        with torch.autocast("cpu", torch.bfloat16):
            self.close(torch.compile(ours, backend="nixie")(x), theirs(x), "bfloat16", 0.1)
            self.close(nt.replace(ours)(x), theirs(x), "bfloat16", 0.1)

    def test_transformers(self):
        for layer in (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", norm_first=True)):
            torch._dynamo.reset()
            x, theirs, found = torch.randn(2, 5, 16), copy.deepcopy(layer), []
            for run, module in ((torch.compile(layer, backend="nixie"), layer), (theirs, theirs)):
                given = x.clone().requires_grad_()
                y = run(given)
                y.square().sum().backward()
                found.append([y.detach(), given.grad, *(each.grad for each in module.parameters())])
            for ours, other in zip(*found):
                torch.testing.assert_close(ours, other, rtol=1e-3, atol=1e-4)

    def test_shared_layers(self):
        """A gradient by a weight counts one use of it, though the other operands are expressions of the weight, too."""
        image, rows = torch.randn(3, 4, 6, 6), torch.randn(5, 4)
        for layer, x in ((nn.Conv2d(4, 4, 3, padding=1), image), (nn.Conv2d(4, 4, 3, padding=1, groups=4), image), (nn.Linear(4, 4), rows),
                         (nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)), image), (nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(4, 4, 1)), image),
                         (nn.ConvTranspose2d(4, 4, 3, padding=1), image), (nn.Sequential(nn.GroupNorm(2, 4), nn.AvgPool2d(3, 1, 1), nn.Conv2d(4, 4, 1)), image)):
            torch._dynamo.reset()
            theirs, found = copy.deepcopy(layer), []
            for module, run in ((layer, torch.compile(lambda x: layer(layer(layer(x).tanh()) + x), backend="nixie")), (theirs, lambda x: theirs(theirs(theirs(x).tanh()) + x))):
                given = x.clone().requires_grad_()
                run(given).backward(torch.sin(torch.arange(x.numel()) ** 2.0).reshape(x.shape))
                found.append([given.grad, *(each.grad for each in module.parameters()), *module.buffers()])
            for ours, other in zip(*found):
                torch.testing.assert_close(ours, other, rtol=1e-3, atol=1e-3)

    def test_counts_calls(self):
        class Counted(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros((), dtype=torch.int64))
                self.register_buffer("mean", torch.zeros(4))

            def forward(self, x):
                before = self.mean + 0
                self.count += 1
                self.mean.lerp_(x.detach().mean(0), 0.1)
                return x * self.mean / self.count + before

        ours, x = Counted(), torch.randn(5, 4, requires_grad=True)
        theirs = copy.deepcopy(ours)
        with self.assertLogs("nixie.torch", "INFO") as logs:
            compiled = torch.compile(ours, backend="nixie")
            for _ in range(3):
                self.close(compiled(x), theirs(x))
        self.close(torch.cat([ours.count[None], ours.mean]), torch.cat([theirs.count[None], theirs.mean]))
        self.assertEqual([line.split(":", 2)[2] for line in logs.output], ["1 plans; in torch: nothing"])

    def test_dynamic_shapes(self):
        for model, shape in ((net().eval(), (3, 32, 32)), (nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 5)), (3, 6))):
            torch._dynamo.reset()
            compiled = torch.compile(model, backend="nixie")
            with torch.no_grad():
                for batch in (2, 3, 5):
                    x = torch.randn(batch, *shape)
                    self.close(compiled(x), model(x), f"batch {batch}")

    def test_optimizers(self):
        """A step that only changes tensors."""
        for make in (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01), lambda p: torch.optim.Adam(p, 0.01, foreach=False),
                     lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True), lambda p: torch.optim.AdamW(p, 0.01, foreach=True, amsgrad=True),
                     lambda p: torch.optim.RMSprop(p, 0.01, foreach=True, centered=True), lambda p: torch.optim.NAdam(p, 0.01, foreach=True)):
            torch._dynamo.reset()
            ours = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
            theirs = copy.deepcopy(ours)
            with self.assertLogs("nixie.torch", "INFO") as logs:
                for model, compiled in ((ours, True), (theirs, False)):
                    optimizer = make(model.parameters())
                    step = torch.compile(optimizer.step, backend="nixie") if compiled else optimizer.step
                    for i in range(4):
                        optimizer.zero_grad()
                        model(torch.full((3, 4), float(i))).square().sum().backward()
                        step()
            for a, b in zip(ours.parameters(), theirs.parameters()):
                self.close(a, b, tolerance=1e-5)
            self.assertEqual({line.split(":", 2)[2] for line in logs.output}, {"1 plans; in torch: nothing"})

    def test_state_dicts(self):
        module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 3))
        ours = nixie.models.Net([{"conv2d": {"out": 4, "kernel": 3}}, "relu", "flatten", {"linear": {"out": 3}}], (1, 1, 8, 8))
        ours.load_state(module.state_dict())
        x = torch.randn(2, 1, 8, 8)
        self.close(torch.from_dlpack(ours(nixie.from_dlpack(x)).compute()), module(x).detach())
        fresh = copy.deepcopy(module)
        for each in fresh.parameters():
            nn.init.zeros_(each)
        fresh.load_state_dict({name: torch.tensor(each.numpy()) for name, each in ours.state().items()})
        self.close(fresh(x), module(x))

    @unittest.skipUnless(importlib.util.find_spec("torchvision"), "torchvision is missing")
    def test_nets_beside_eager(self):
        """The program that times and checks nets (examples/torch_compile.py)."""
        path = pathlib.Path(__file__).parents[2] / "apps/python/examples/torch_compile.py"
        for arguments, code, expected in (
            (["resnet18", "--check", "--batch", "4", "--size", "64"], False, r"resnet18 +same: .* from float64, eager .*; 1 plans, in torch: nothing\n"),
            (["resnet18", "--engines", "nixie,eager", "--batch", "2", "--size", "32", "--precision", "float32"], False,
             r"net, ms .*\nresnet18 +[0-9.]+ +- +[0-9.]+ +[0-9.]+ +[0-9.]+ +- +[0-9.]+ +[0-9.]+ +[0-9.]+ %  1 plans, in torch: nothing\n"),
            (["resnet18", "--seconds", "-1", "--check"], False, r"resnet18 +not begun: -1 s are over\n")):
            with contextlib.redirect_stdout(io.StringIO()) as output, unittest.mock.patch("sys.argv", ["torch_compile.py", *arguments]):
                with self.assertRaises(SystemExit) as ended:
                    runpy.run_path(str(path), run_name="__main__")
            self.assertEqual(ended.exception.code, code)
            self.assertRegex(output.getvalue(), expected)

    def test_docstrings(self):
        for name in ("tensor", "function", "conv2d", "linear", "relu", "gelu", "softmax", "max_pool2d", "avg_pool2d", "replace", "backend"):
            test = doctest.DocTestParser().get_doctest(inspect.getdoc(getattr(nt, name)), {"nixie": nixie, "torch": torch}, name, name, 0)
            self.assertGreater(len(test.examples), 0, name)
            self.assertEqual(doctest.DocTestRunner(verbose=False).run(test).failed, 0, name)


if __name__ == "__main__":
    unittest.main()
