"""Nets, losses and optimizers by their names, in compiled functions and in files."""

import copy
import pathlib
import pickle
import tempfile
import unittest

import numpy as np

import nixie as nx
from nixie.models import Net, Optimizer, accuracy, loss

LAYERS = [{"conv2d": {"out": 4, "kernel": 3, "pad": 1}}, "batch_norm", "relu", {"max_pool2d": {"window": 2}}, "flatten", {"linear": {"out": 2}}]


def halves(seed):
    """Images that are bright on the left or on the right."""
    labels = nx.random.integers(seed, 0, 2, 32)
    bright = nx.arange(8) // 4 == nx.expand_dims(labels, axis=1)
    return nx.random.normal(seed + 100, (32, 1, 8, 8)) + bright.astype(nx.float32).reshape(32, 1, 1, 8), labels


class Models(unittest.TestCase):
    def train(self, net, optimizer, seeds):
        @nx.compile
        def step(images, labels, count):
            value = loss({"cross_entropy": {"label_smoothing": 0.1}}, net(images, training=True, step=count), labels)
            optimizer.minimize(value)
            return value

        return [step(*halves(seed), nx.array(seed)).item() for seed in seeds]

    def make(self):
        net = Net(LAYERS, (1, 1, 8, 8), seed=1)
        return net, Optimizer(net, {"adam": {}}, schedule={"cosine": {"rate": 0.02}}, steps=40, clip_norm=1.0)

    def test_train_save_and_go_on(self):
        net, optimizer = self.make()
        losses = self.train(net, optimizer, range(20))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.h5"
            net.save(path, optimizer)
            rest = self.train(net, optimizer, range(20, 40))
            again, its_optimizer = self.make()
            again.load(path, its_optimizer)
            self.assertEqual(its_optimizer.count.item(), 20)
            self.assertEqual(self.train(again, its_optimizer, range(20, 40)), rest)  # bit by bit
            net.save(path)
            again.load(path)
            with self.assertRaisesRegex(nx.Error, "weight"):
                Net([{"linear": {"out": 2}}], (1, 4)).load(path)
        images, labels = halves(1000)
        found = accuracy(nx.compile(lambda x: net(x))(images), labels).item()
        self.assertGreater(found, 0.9)
        self.assertEqual(accuracy(again(images), labels).item(), found)
        self.assertLess(rest[-1], losses[0])

    def test_state(self):
        net = Net(LAYERS, (1, 1, 8, 8), seed=1)
        state = {name: each.numpy().copy() for name, each in net.state().items()}
        self.assertIn("1.running_mean", state)
        other = Net(LAYERS, (4, 1, 8, 8), seed=2)
        other.load_state(state)
        images, _ = halves(3)
        self.assertEqual(other(images).tolist(), net(images).tolist())
        with self.assertRaisesRegex(ValueError, "no parameter \"fc\"; state\\(\\) lists"):
            net.load_state({"fc": 1.0})
        with self.assertRaises(ValueError):
            net.load_state({"5.bias": [1.0]})

    def test_copies(self):
        net = self.make()[0]
        x = nx.random.normal(1, (2, *net._given[1][1:]))
        for copied in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            self.assertTrue((copied(x) == net(x)).all())
            copied.load_state({name: value * 0 for name, value in copied.state().items()})
            self.assertFalse((copied(x) == net(x)).all())
        with self.assertRaisesRegex(TypeError, "save it"):
            copy.copy(Net._of(net._net))

    def test_every_net(self):
        for name in nx.models.NAMES:
            self.assertIsInstance(getattr(nx.models, name)(*([(1, 3, 32, 32)] if name in ("lenet", "mlp") else [])), Net, name)
        net = nx.models.resnet18((2, 3, 64, 64), classes=10, seed=3)
        self.assertEqual((net(nx.zeros((1, 3, 64, 64))).shape, net.output_shape), ((1, 10), (10,)))
        self.assertEqual(net.state()["layer1.0.conv1.weight"].shape, (64, 64, 3, 3))

    def test_losses(self):
        x, y = nx.array([[1.0, 2.0]]), nx.array([1])
        np.testing.assert_allclose(loss("cross_entropy", x, y), np.log(1 + np.exp(-1)), rtol=1e-6)
        self.assertEqual(loss("mean_squared", x, x * 3, weights=nx.ones(1)).item(), 10)

    def test_errors(self):
        for what, text in ((lambda: Net({"resnet19": {}}, (1, 3, 64, 64)), "resnet18"), (lambda: Net({"lenet": {"clases": 3}}, (1, 1, 28, 28)), "classes"),
                           (lambda: Net(LAYERS, (1, 8)), "conv2d"), (lambda: Optimizer(self.make()[0], {"adam": {"beta1": 2}}), "beta1"),
                           (lambda: loss("cross", nx.ones((1, 2)), nx.array([1])), "cross_entropy"),
                           (lambda: self.make()[1].minimize(nx.array(1.0)), "nixie.compile")):
            with self.assertRaises(ValueError) as raised:
                what()
            self.assertIn(text, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))
        net, optimizer = self.make()
        for what, text in ((lambda: net.save(None), "os.PathLike object, not NoneType"), (lambda: net.load(3), "os.PathLike object, not int"), (lambda: net.load("net.h5", 3), "load: a int, expected an Optimizer"),
                           (lambda: Optimizer(3, {"sgd": {}}), "a int, expected a Net"), (lambda: net.load_state([1]), "a list, expected a dictionary"), (lambda: net("a"), "no array of real numbers"),
                           (lambda: nx.models.load_trained(None), "not NoneType"), (lambda: Net(LAYERS, (1, 8), seed=1.5), "'float' object")):
            with self.assertRaises(TypeError) as raised:
                what()
            self.assertIn(text, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))
        with self.assertRaisesRegex(ValueError, "net.safetensors is no checkpoint; init_from takes its arrays"):
            net.load("net.safetensors")
        with self.assertRaisesRegex(AttributeError, "no net 'resnet19'; it has"):
            nx.models.resnet19


if __name__ == "__main__":
    unittest.main()
