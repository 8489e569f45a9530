"""The trainer with callbacks, batches of arrays, estimators, checkpoints and PyTorch's state dicts."""

import os
import pathlib
import pickle
import signal
import sys
import tempfile
import unittest
import warnings

import numpy as np

import nixie
from nixie.training import Printer, batches

try:
    import sklearn
except ImportError:
    sklearn = None

CONFIG = {"model": {"mlp": {"classes": 10}}, "data": {"glyphs": {"train": 96, "test": 32, "batch": 32}}, "epochs": 2, "log_every": 2}
LAYERS = [{"linear": {"out": 16}}, "relu", {"linear": {"out": 3}}]


class Recorder:
    def __init__(self):
        self.events = []

    def train_begins(self, trainer):
        self.events.append("begins")

    def epoch_begins(self, trainer, epoch):
        self.events.append(("epoch", epoch))

    def step_ends(self, trainer, step):
        self.events.append(step)

    def evaluation_ends(self, trainer, figures):
        self.events.append(sorted(figures))

    def train_ends(self, trainer, is_done):
        self.events.append(is_done)


def layers(outputs):
    return [{"linear": {"out": 32}}, "relu", {"linear": {"out": outputs}}]


def spiral(seed=0):
    random = np.random.default_rng(seed)
    x = random.standard_normal((300, 2)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(int) + (x[:, 1] > 0)


class Training(unittest.TestCase):
    def test_callbacks(self):
        recorder, rows = Recorder(), []
        recorder.interval_ends = lambda trainer, figures: rows.append(figures)
        trainer = nixie.Trainer(CONFIG, callbacks=[recorder])
        self.assertTrue(trainer.train())
        self.assertEqual(recorder.events, ["begins", ("epoch", 0), 1, 2, 3, ["accuracy", "loss", "samples"], ("epoch", 1), 4, 5, 6,
                                           ["accuracy", "loss", "samples"], True])
        self.assertEqual([row["step"] for row in rows], [2, 3, 5, 6])  # and at the end of an epoch
        self.assertEqual(trainer.evaluate()["samples"], 32)
        self.assertIn("glyphs", trainer.config)

    def test_stop_and_exceptions(self):
        stopper = Recorder()
        stopper.step_ends = lambda trainer, step: trainer.stop()
        trainer = nixie.Trainer(CONFIG, callbacks=[stopper])
        self.assertFalse(trainer.train())
        self.assertEqual(trainer.step, 1)
        breaker = Recorder()
        breaker.epoch_begins = lambda trainer, epoch: 1 / 0
        with self.assertRaises(ZeroDivisionError):
            nixie.Trainer(CONFIG, callbacks=[breaker]).train()

    def test_interrupt(self):
        breaker = Recorder()
        breaker.step_ends = lambda trainer, step: step == 2 and os.kill(os.getpid(), signal.SIGINT)
        trainer = nixie.Trainer(CONFIG, callbacks=[breaker])
        with self.assertRaises(KeyboardInterrupt):
            trainer.train()
        self.assertLess(trainer.step, 6)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            run, config = pathlib.Path(folder) / "run", pathlib.Path(folder) / "mine.yaml"
            config.write_text("model: {mlp: {classes: 10}}\ndata: {glyphs: {train: 96, test: 32, batch: 32}}\nepochs: 5\n")
            trainer = nixie.Trainer(config, run=run, changes={"epochs": 2, "optimizer.sgd.momentum": 0.5})
            trainer.train()
            state = {name: each.numpy().copy() for name, each in trainer.net.state().items()}
            del trainer  # and its lock
            again = nixie.Trainer(config, run=run, changes={"epochs": 2, "optimizer.sgd.momentum": 0.5}).resume()
            self.assertEqual(again.step, 6)
            net = nixie.models.load_trained(run / "last.h5")
            self.assertEqual(len(net.class_names), 10)
            for name, each in net.state().items():
                self.assertTrue((each.numpy() == state[name]).all(), name)
        for wrong, text in ({"model": "mpl"}, "mlp"), ({"epoch": 1}, "epochs"):
            with self.assertRaisesRegex(ValueError, text):
                nixie.Trainer({**CONFIG, **wrong})

    def test_batches(self):
        x, y = np.arange(10.0), list(range(10))
        plain = [labels.tolist() for _, labels in batches(x, y, batch=4)]
        self.assertEqual(plain, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]])
        orders = [[labels.tolist() for _, labels in batches(x, y, batch=10, seed=3, epoch=epoch)] for epoch in (0, 1, 0)]
        self.assertEqual((orders[0], orders[0] != orders[1]), (orders[2], True))
        self.assertEqual(sorted(orders[1][0]), y)
        with self.assertRaisesRegex(ValueError, "10 samples and 3 targets"):
            next(batches(x, [1, 2, 3]))

    def test_wrong_inputs(self):
        x, y = np.ones((8, 3), np.float32), np.arange(8) % 2
        fit = lambda x, y, of=nixie.Classifier, **options: of([{"linear": {"out": 2}}], **{"epochs": 1, **options}).fit(x, y)
        fitted, make = fit(x, y), lambda **options: nixie.Trainer(CONFIG, **options)
        for what, error, text in (
            (lambda: fit(x, y[:3]), ValueError, "8 samples and 3|inconsistent numbers of samples"),
            (lambda: fit(x * np.nan, y), ValueError, "NaN"),
            (lambda: fit(x, np.stack([y, y], 1)), ValueError, r"shape \(8, 2\) are no classes|1d array"),
            (lambda: fit(x, y + 0.5), ValueError, "Regressor takes numbers|Unknown label type"),
            (lambda: fit([(x, y + 2)], None), ValueError, "the loss of epoch 0 is (nan|inf); a target"),
            (lambda: fit([(x, x[:, :2] / 0)], None, nixie.Regressor), ValueError, "the loss of epoch 0 is (nan|inf); a target"),
            (lambda: fit(x, y, epochs=0), ValueError, "epochs is 0, expected a whole number from 1"),
            (lambda: fit(x, y, batch=2.5), ValueError, "batch is 2.5"),
            (lambda: fit(x, y, seed="a"), ValueError, "seed is 'a', expected a whole number from 0"),
            (lambda: fitted.predict(x / 0), ValueError, "infinity"),
            (lambda: fitted.score(x, y[:3]), ValueError, r"8 samples and targets of shape \(3,\)"),
            (lambda: fitted.score(x, None), ValueError, r"8 samples and targets of shape \(\)"),
            (lambda: next(batches(3, 4)), ValueError, "no samples and no targets"),
            (lambda: make(callbacks=Recorder()), TypeError, "a Recorder, expected a list"),
            (lambda: make(callbacks=[Recorder]), TypeError, "no object with some of the methods train_begins"),
            (lambda: make(callbacks=[None]), TypeError, "callback None is no object"),
            (lambda: make().resume(), ValueError, "no folder; give the path of a checkpoint")):
            with self.assertRaisesRegex(error, text) as raised:
                what()
            if "sklearn" not in sys.modules:
                self.assertNotIn("\n", str(raised.exception))

    def test_estimators(self):
        x, y = spiral()
        model = nixie.Classifier(LAYERS, schedule={"cosine": {"rate": 0.02}}, epochs=20)
        self.assertGreater(model.fit(x, y * 5).score(*(lambda x, y: (x, y * 5))(*spiral(1))), 0.9)
        self.assertEqual(model.classes_.tolist(), [0, 5, 10])
        self.assertLess(model.history_[-1], model.history_[0])
        np.testing.assert_allclose(model.predict_proba(x).sum(axis=1), 1, rtol=1e-5)
        again = nixie.Classifier(**model.get_params()).fit(x, y * 5)
        self.assertEqual(again.history_, model.history_)
        pairs = [(x[first : first + 50], y[first : first + 50]) for first in range(0, 300, 50)]
        self.assertGreater(nixie.Classifier(LAYERS, schedule={"constant": {"rate": 0.02}}, epochs=20).fit(pairs).score(x, y), 0.9)
        for what, text in ((lambda: nixie.Classifier(LAYERS).predict(x), "call fit first"), (lambda: model.set_params(epoch=3), "epochs"),
                           (lambda: model.fit(iter(pairs)), "iterated again"),
                           (lambda: nixie.Classifier(layers).fit(pairs), "give the net as a definition"), (lambda: model.predict(x[:0]), "no sample|0 sample"),
                           (lambda: nixie.Classifier(LAYERS, batch=0).fit(x, y), "batch is 0, expected a whole number from 1"), (lambda: model.fit(x[:0], y[:0]), "no sample|0 sample")):
            with self.assertRaisesRegex(ValueError, text):
                what()

    @unittest.skipIf(sklearn is None, "scikit-learn is missing")
    def test_scikit_learn(self):
        from sklearn.base import clone
        from sklearn.model_selection import GridSearchCV, cross_val_score
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        x, y = spiral()
        model = nixie.Classifier(LAYERS, schedule={"constant": {"rate": 0.02}}, epochs=10)
        self.assertGreater(cross_val_score(make_pipeline(StandardScaler(), clone(model)), x, y, cv=3).mean(), 0.8)
        search = GridSearchCV(model, {"epochs": [1, 10]}, cv=2).fit(x, y)
        self.assertEqual(search.best_params_, {"epochs": 10})
        regressor = nixie.Regressor([{"linear": {"out": 1}}], schedule={"constant": {"rate": 0.05}}, epochs=20)
        self.assertGreater(cross_val_score(regressor, x, x[:, 0] * 2 + 1, cv=3).mean(), 0.9)

    @unittest.skipIf(sklearn is None, "scikit-learn is missing")
    def test_checks_of_scikit_learn(self):
        from sklearn.utils.estimator_checks import check_estimator

        for make in (nixie.Classifier, nixie.Regressor):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                checks = check_estimator(make(layers, schedule={"constant": {"rate": 0.02}}, epochs=40), on_fail=None)
            self.assertEqual([(each["check_name"], str(each["exception"])) for each in checks if each["status"] == "failed"], [])

    def test_fitted_estimators_are_pickled(self):
        x, y = spiral(0)
        model = nixie.Classifier(layers, schedule={"constant": {"rate": 0.02}}, epochs=2).fit(x, y)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
        with self.assertRaisesRegex(ValueError, "1 outputs, expected 3"):
            nixie.Classifier([{"linear": {"out": 1}}]).fit(x, y)

    def test_safetensors(self):
        net = nixie.models.Net(LAYERS, (1, 2), seed=1)
        other = nixie.models.Net(LAYERS, (1, 2), seed=2)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.safetensors"
            net.save(path)
            other.init_from(path)
            with self.assertRaisesRegex(ValueError, "holds no optimizer"):
                net.save(path, nixie.models.Optimizer(net, {"adam": {}}))
        x = nixie.random.normal(1, (5, 2))
        self.assertEqual(net(x).tolist(), other(x).tolist())

    def test_printer(self):
        self.assertEqual(Printer.figures({"step": 3, "loss": 0.12345, "accuracy": float("nan")}), "step 3  loss 0.1235")


if __name__ == "__main__":
    unittest.main()
