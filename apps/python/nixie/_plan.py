"""Functions of arrays on torch's tensors: plans that read and write the tensors' memory, on torch's current stream."""

import threading

import torch
from torch._C._dynamo.guards import _empty_strided_cpu, _empty_strided_cuda, assert_size_stride

from . import _core
from ._manipulation import permute_dims as _permute

LAST = (0, 2, 3, 1)  # the axes of a channels-last tensor as it is stored


def is_channels_last(x):
    return x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)


def order_of(x):
    """The axes of a tensor as it is stored, the one with the largest stride first; None where there are gaps."""
    if x.is_contiguous():
        return tuple(range(x.dim()))
    if is_channels_last(x):
        return LAST
    order = tuple(sorted(range(x.dim()), key=lambda axis: -x.stride(axis)))
    return order if x.permute(order).is_contiguous() else None


def _inverse(order):
    return tuple(order.index(axis) for axis in range(len(order)))


class _Result:
    """A tensor that a plan writes. One that is kept is written again by the next call unless somebody holds it still, so that
    a CUDA graph finds it where it was."""

    def __init__(self, form, device, is_kept):
        self.form, self.is_kept = form, is_kept
        self.empty = _empty_strided_cuda if device.type == "cuda" else _empty_strided_cpu
        self.tensor, self.storage, self.uses = None, 0, 0

    def fresh(self):
        if not self.is_kept:
            return self.empty(*self.form)
        if self.tensor is None or torch._C._storage_Use_Count(self.storage) > self.uses:
            self.tensor = self.empty(*self.form)
            self.storage = self.tensor.untyped_storage()._cdata
            self.uses = torch._C._storage_Use_Count(self.storage)
        return self.tensor.detach()


class _Plan:
    """The plan for arguments of these sizes, strides and numbers."""

    def __init__(self, function, device, arguments, sets, kept, precision):
        places = [i for i, each in enumerate(arguments) if isinstance(each, torch.Tensor)]
        tensors = [arguments[i] for i in places]
        self.numbers = {i: each for i, each in enumerate(arguments) if i not in set(places)}
        self.forms = [(tuple(x.shape), x.stride()) for x in tensors]
        self.has_empty = any(x.numel() == 0 for x in tensors)
        self.gpu = device.index if device.type == "cuda" else None
        self.sets = [i for i, place in enumerate(places) if place in sets]
        orders = [order_of(x) for x in tensors]
        self.gaps = [i for i, order in enumerate(orders) if order is None]
        orders = [order or tuple(range(x.dim())) for order, x in zip(orders, tensors)]
        results = []

        def trace(arrays):
            given = list(arguments)
            for place, x, order in zip(places, arrays, orders):
                given[place] = _permute(x, _inverse(order))
            found, results[:], values = function(given)
            return ([_permute(x, order) for x, order in zip(found, results)], [_permute(values[places[i]], orders[i]) for i in self.sets])

        forms = [([x.shape[axis] for axis in order], str(x.dtype)[6:], i in self.sets) for i, (x, order) in enumerate(zip(tensors, orders))]
        self.run = _core.ExternalPlan(trace, forms, device.type, precision)
        self.results = []
        for i, (order, (sizes, strides, dtype)) in enumerate(zip(results, self.run.results)):
            sizes, strides = (tuple(each[axis] for axis in _inverse(order)) for each in (sizes, strides))
            self.results.append(_Result((sizes, strides, getattr(torch, dtype)), device, i in kept))

    def addresses(self, arguments):
        """Where the tensors are; None if the plan is for others, or for other numbers."""
        for place, number in self.numbers.items():
            if arguments[place] != number:
                return None
        tensors = self.tensors(arguments)
        try:
            for x, (sizes, strides) in zip(tensors, self.forms):
                assert_size_stride(x, sizes, strides)  # it takes empty tensors for any
        except AssertionError:
            return None
        found = [x.data_ptr() for x in tensors]
        fits = not self.has_empty and all(found) or all(x.shape == sizes for x, (sizes, _) in zip(tensors, self.forms))
        return found if fits else None

    def tensors(self, arguments):
        return [each for i, each in enumerate(arguments) if i not in self.numbers] if self.numbers else arguments

    def __call__(self, arguments, addresses):
        results = None if self.gaps else self.run_at(addresses)
        return self.run_copied(self.tensors(arguments), addresses) if results is None else results

    def run_copied(self, tensors, addresses):
        copied = set(self.gaps) | set(self.run.misaligned(addresses))
        copies = [x.clone(memory_format=torch.contiguous_format if i in self.gaps else torch.preserve_format) if i in copied else x
                  for i, x in enumerate(tensors)]
        results = self.run_at([x.data_ptr() for x in copies])
        for i in self.sets:
            if i in copied:
                tensors[i].copy_(copies[i])
        return results

    def run_at(self, addresses):
        """The results, or None if an argument must be copied first."""
        results = [each.fresh() for each in self.results]
        stream = 0 if self.gpu is None else torch._C._cuda_getCurrentRawStream(self.gpu)
        return results if self.run(addresses, [x.data_ptr() for x in results], stream) else None


class Function:
    """A function of arrays and numbers on tensors of a device, of the same types in each call: a plan for each
    combination of sizes, strides and numbers. `function` is given a list of arrays and numbers and returns a list of arrays,
    for each of them the order of axes in which it is stored, and by their places the new values of the arguments that it `sets`. Results whose
    places are in `kept` share their memory from call to call where nobody holds it."""

    MOST = 64  # plans

    def __init__(self, function, device, sets=(), kept=(), precision="fp32"):
        self.make = lambda arguments: _Plan(function, device, arguments, sets, kept, precision)
        self.plans, self.lock = [], threading.Lock()  # the one used last comes first

    def __call__(self, arguments):
        with self.lock:
            for plan in self.plans:
                if (addresses := plan.addresses(arguments)) is not None:
                    break
            else:
                plan = self.make(arguments)
                addresses = [x.data_ptr() for x in plan.tensors(arguments)]
            if not self.plans or self.plans[0] is not plan:
                self.plans = [plan, *(each for each in self.plans if each is not plan)][: self.MOST]
            return plan(arguments, addresses)
