"""Nets, losses and optimizers by the names of the trainer's configurations: `nixie.models.resnet18(...)`.

A net and an optimizer have state, which only a compiled function changes: the running statistics of a net that trains,
and the parameters by `Optimizer.minimize`.
"""

import json
import operator
import os

from . import _core
from ._creation import asarray as _asarray

NAMES = _core.net_names()


class Net:
    """A net for inputs [N, ...] of a shape; the batch of a call may differ. `definition` is a name with options, as
    {"resnet18": {"classes": 10}}, or a list of layers, as in a configuration.

    >>> net = nixie.models.Net(["flatten", {"linear": {"out": 3}}], (1, 1, 4, 4))
    >>> net(nixie.zeros((2, 1, 4, 4))).shape, net.count
    ((2, 3), 51)
    """

    def __init__(self, definition, input_shape, *, seed=0):
        self._given = json.dumps(definition), [operator.index(size) for size in input_shape], operator.index(seed)
        self._take(_core.Net(*self._given))

    def __reduce__(self):
        """What pickle and copy keep: the definition and the parameters."""
        if not hasattr(self, "_given"):
            raise TypeError("the net of a run has no definition here; save it, or load_state of one that has")
        return _restored, (*self._given, self.state())

    def _take(self, net):
        self._net, self.output_shape, self.count = net, tuple(net.output_shape()), net.count()

    @classmethod
    def _of(cls, net):
        made = cls.__new__(cls)
        made._take(net)
        return made

    def __call__(self, x, /, *, training=False, step=0):
        """The output for a batch. In training dropout draws by `step`, and batch norms set their running statistics."""
        return self._net(_asarray(x), training, step)

    def state(self, *, device="cpu"):
        """Parameters and running statistics by name, as PyTorch's state_dict.

        >>> sorted(nixie.models.Net([{"linear": {"out": 3}}], (1, 4)).state())
        ['0.bias', '0.weight']
        """
        return self._net.state(device)

    def load_state(self, arrays, /):
        """Sets those of a dictionary's arrays, of nixie, numpy or PyTorch, by name.

        >>> net = nixie.models.Net([{"linear": {"out": 1}}], (1, 1))
        >>> net.load_state({"0.weight": [[2.0]], "0.bias": [1.0]})
        >>> net(nixie.array([[3.0]])).item()
        7.0
        """
        if not hasattr(arrays, "items"):
            raise TypeError(f"load_state: a {type(arrays).__name__}, expected a dictionary of arrays by name")
        for name, each in arrays.items():
            self._net.set(str(name), _asarray(each))

    def save(self, path, optimizer=None):
        """Writes a checkpoint (HDF5), with the optimizer's state if one is given; to a path that ends in .safetensors the
        arrays of `state`, which safetensors.torch.load_file reads."""
        path = os.fspath(path)
        if path.endswith(".safetensors"):
            if optimizer is not None:
                raise ValueError(f"save: {path} holds no optimizer; write a checkpoint, such as net.h5")
            return self._net.save_safetensors(path)
        self._net.save(path) if optimizer is None else _rule_of(optimizer, "save").save(self._net, path)

    def load(self, path, optimizer=None):
        """Sets all that `save` wrote of a net of the same definition; raises nixie.Error, before anything is set, if the
        file is damaged or of another net."""
        path = os.fspath(path)
        if path.endswith(".safetensors"):
            raise ValueError(f"load: {path} is no checkpoint; init_from takes its arrays")
        self._net.load(path) if optimizer is None else _rule_of(optimizer, "load").load(self._net, path)

    def init_from(self, path):
        """Sets what a checkpoint, safetensors or HDF5 file has under the same names and shapes; returns a report."""
        return self._net.init_from(os.fspath(path))


def _rule_of(optimizer, what):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{what}: a {type(optimizer).__name__}, expected an Optimizer")
    return optimizer._optimizer


def _restored(definition, input_shape, seed, state):
    net = Net(json.loads(definition), input_shape, seed=seed)
    net.load_state(state)
    return net


class Optimizer:
    """An update rule, {"sgd": {"momentum": 0.9}}, for the parameters of a net. `schedule` is the learning rate,
    {"cosine": {"rate": 0.1}} over so many `steps`, by default constant and the rule's usual one.

    >>> net = nixie.models.Net([{"linear": {"out": 1}}], (1, 1), seed=1)
    >>> optimizer = nixie.models.Optimizer(net, {"sgd": {}}, schedule={"constant": {"rate": 0.1}})
    >>> @nixie.compile
    ... def step(x, y):
    ...     loss = nixie.models.loss("mean_squared", net(x, training=True), y)
    ...     optimizer.minimize(loss)
    ...     return loss
    >>> x = nixie.array([[1.0], [2.0]])
    >>> losses = [step(x, 3 * x + 1).item() for _ in range(100)]
    >>> losses[-1] < losses[0] / 100, optimizer.count.item()
    (True, 100)
    """

    def __init__(self, net, rule, *, schedule=None, steps=0, clip_norm=0.0):
        if not isinstance(net, Net):
            raise TypeError(f"Optimizer: a {type(net).__name__}, expected a Net")
        self._optimizer = _core.Optimizer(net._net, json.dumps(rule), None if schedule is None else json.dumps(schedule), steps, clip_norm)

    def minimize(self, loss, /):
        """One step of descent, in a compiled function."""
        if not _core.is_tracing():
            raise ValueError("minimize: call it in a function of nixie.compile, whose plan sets the parameters")
        self._optimizer.minimize(loss)

    @property
    def count(self):
        """The number of steps so far, int32."""
        return self._optimizer.count("cpu")


def load_trained(path):
    """The net of a checkpoint that a training run wrote, with the names of its classes in `class_names`.

    >>> trainer = nixie.Trainer({"model": {"mlp": {"classes": 10}}, "data": {"glyphs": {"train": 64}}, "steps": 1}, run="RUN")  # doctest: +SKIP
    >>> nixie.models.load_trained("RUN/last.h5").class_names  # doctest: +SKIP
    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']
    """
    found, class_names = _core.load_trained(os.fspath(path))
    net = Net._of(found)
    net.class_names = class_names
    return net


def loss(definition, output, target, /, weights=None):
    """A loss of a configuration, by name or with options, {"cross_entropy": {"label_smoothing": 0.1}}: one number, the
    mean over samples, weighted if `weights` [N] are given.

    >>> nixie.models.loss("mean_squared", nixie.array([[1.0]]), nixie.array([[3.0]])).item()
    4.0
    """
    return _core.loss(json.dumps(definition), output, target, weights)


def accuracy(output, labels, /):
    """The part of samples whose largest output is that of their label.

    >>> nixie.models.accuracy(nixie.array([[1.0, 3.0]]), nixie.array([1])).item()
    1.0
    """
    return _core.accuracy(output, labels)


def __getattr__(name):
    if name not in NAMES:
        raise AttributeError(f"nixie.models has no net {name!r}; it has {', '.join(NAMES)}")

    def build(input_shape=(1, 3, 224, 224), *, seed=0, **options):
        return Net({name: options}, input_shape, seed=seed)

    build.__name__, build.__doc__ = name, f"The net {name} for inputs of a shape; docs/configuration.md lists its options."
    return build
