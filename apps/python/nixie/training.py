"""Training: the trainer of a configuration with callbacks, batches of arrays, and estimators with fit, predict and score."""

import json
import pathlib

from . import _core, models as _models
from ._creation import asarray as _asarray
from ._transforms import compile as _compile


EVENTS = ("train_begins", "epoch_begins", "step_ends", "interval_ends", "evaluation_ends", "save_begins", "epoch_ends", "train_ends")


class Trainer:
    """The training run of a configuration: a path, or a dictionary of the keys of docs/configuration.md. `changes` are
    further keys, {"optimizer.sgd.momentum": 0.8}. Files are written into the folder `run`, if one is given. A callback is
    an object with some of the methods train_begins(trainer), epoch_begins(trainer, epoch), step_ends(trainer, step),
    interval_ends(trainer, figures), evaluation_ends(trainer, figures), save_begins(trainer, files), epoch_ends(trainer,
    epoch) and train_ends(trainer, is_done); an exception of one ends the run, as does `trainer.stop()`.

    >>> trainer = nixie.Trainer({"model": {"mlp": {"classes": 10}}, "data": {"glyphs": {"train": 64, "test": 32, "batch": 32}}, "steps": 4})
    >>> trainer.train(), trainer.step, trainer.total_steps
    (True, 4, 4)
    >>> sorted(trainer.evaluate())
    ['accuracy', 'loss', 'samples']
    """

    def __init__(self, config, *, run=None, changes={}, callbacks=(), show=False):
        import weakref

        if not isinstance(callbacks, (list, tuple)):
            raise TypeError(f"Trainer: callbacks is a {type(callbacks).__name__}, expected a list of objects")
        for each in callbacks:
            if isinstance(each, type) or not any(callable(getattr(each, event, None)) for event in EVENTS):
                raise TypeError(f"Trainer: the callback {each!r} is no object with some of the methods {', '.join(EVENTS)}")
        self.callbacks = [*callbacks, *([Printer()] if show else [])]
        self._has_folder = run is not None
        myself = weakref.ref(self)

        def tell(event, *about):
            trainer = myself()
            for each in trainer.callbacks:
                if hasattr(each, event):
                    getattr(each, event)(trainer, *about)

        if run is not None:
            pathlib.Path(run).mkdir(parents=True, exist_ok=True)
        is_path = not isinstance(config, dict)
        assignments = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in changes.items()]
        self._trainer = _core.Trainer(str(config) if is_path else json.dumps(config), is_path, assignments, run or "", tell)

    def train(self):
        """Trains to the end; returns False if the run was stopped. Ctrl-C saves the state and raises KeyboardInterrupt."""
        return self._trainer.train()

    def stop(self):
        """In a callback: ends the run after this step."""
        self._trainer.stop()

    def resume(self, path=None):
        """Goes on where a checkpoint was written, by default the last one of the run's folder."""
        if path is None and not self._has_folder:
            raise ValueError("resume: this run has no folder; give the path of a checkpoint")
        self._trainer.resume(path)
        return self

    def evaluate(self):
        """Loss, accuracy and the configuration's metrics on the data that is held out, by name."""
        return self._trainer.evaluate()

    @property
    def net(self):
        """The net that is trained, with its present parameters."""
        return _models.Net._of(self._trainer.net())

    @property
    def step(self):
        """Steps done."""
        return self._trainer.step()

    @property
    def total_steps(self):
        """Steps of the whole run."""
        return self._trainer.total_steps()

    @property
    def config(self):
        """The configuration with every key, as YAML."""
        return self._trainer.config()

    def __repr__(self):
        return self._trainer.summary()


class Printer:
    """A callback that prints the figures of each interval and evaluation, and on one line how far the run is.

    >>> nixie.training.Printer.figures({"step": 3, "loss": 0.25, "accuracy": float("nan")})
    'step 3  loss 0.25'
    """

    @staticmethod
    def figures(figures):
        return "  ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in figures.items() if value == value)

    def step_ends(self, trainer, step):
        done = int(30 * step / trainer.total_steps)
        print(f"\r[{'#' * done}{'.' * (30 - done)}] {step} of {trainer.total_steps}", end="", flush=True)

    def interval_ends(self, trainer, figures):
        print("\r" + self.figures(figures))

    def evaluation_ends(self, trainer, figures):
        print("\rtest: " + self.figures(figures))


def batches(x, y=None, *, batch=32, seed=None, epoch=0):
    """Batches of arrays of nixie, numpy or another library, x [N, ...] and y [N, ...]: pairs in order, or with a seed in an
    order that depends on seed and epoch alone. The last batch may be smaller. An iterable of pairs is given as it is.

    >>> [labels.tolist() for _, labels in nixie.training.batches([[1.0], [2.0], [3.0]], [0, 1, 2], batch=2)]
    [[0, 1], [2]]
    """
    import numpy

    if batch < 1:
        raise ValueError(f"batches: a batch of {batch} samples, expected 1 or more")
    if y is None:
        yield from x
        return
    x, y = (numpy.asarray(each) for each in (x, y))
    counts = [len(each) if each.ndim else "no" for each in (x, y)]
    if counts[0] != counts[1] or "no" in counts:
        raise ValueError(f"batches: {counts[0]} samples and {counts[1]} targets")
    order = numpy.arange(len(x)) if seed is None else numpy.random.default_rng([seed, epoch]).permutation(len(x))
    for first in range(0, len(x), batch):
        rows = order[first : first + batch]
        yield x[rows], y[rows]


class _Estimator:
    """What estimators share: parameters by name, as scikit-learn has them, and the loop. Where scikit-learn is in use, it checks
    the samples, so that its tools get the errors that they ask for."""

    def __init__(self, net, *, optimizer="adam", schedule=None, epochs=10, batch=32, seed=0, device="cpu", precision="fp32"):
        self.net, self.optimizer, self.schedule, self.epochs = net, optimizer, schedule, epochs
        self.batch, self.seed, self.device, self.precision = batch, seed, device, precision

    def get_params(self, deep=True):
        """The constructor's arguments by name."""
        names = ("net", "optimizer", "schedule", "epochs", "batch", "seed", "device", "precision")
        return {name: getattr(self, name) for name in names}

    def set_params(self, **parameters):
        """Sets arguments of the constructor; returns the estimator."""
        for name, value in parameters.items():
            if name not in self.get_params():
                raise ValueError(f"set_params: {name!r} is no parameter; these are {', '.join(self.get_params())}")
            setattr(self, name, value)
        return self

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"

    def __sklearn_is_fitted__(self):
        return hasattr(self, "net_")

    def __sklearn_tags__(self):
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        kind = self._estimator_type
        return Tags(estimator_type=kind, target_tags=TargetTags(required=True, multi_output=kind == "regressor"), input_tags=InputTags(three_d_array=True),
                    classifier_tags=ClassifierTags() if kind == "classifier" else None, regressor_tags=RegressorTags() if kind == "regressor" else None)

    def __getstate__(self):
        """What pickle keeps: all but the compiled function."""
        return {name: value for name, value in self.__dict__.items() if name != "_outputs"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        if hasattr(self, "net_"):
            self._take(self.net_)

    def _take(self, net):
        self.net_, self._outputs = net, _compile(lambda samples: net(samples), precision=self.precision)

    def _array(self, x):
        x = _asarray(x, device=self.device)
        return x.astype("float32") if str(x.dtype) == "float64" else x

    def _checked(self, x, y=None):
        """Samples, and with them targets, as arrays of numpy."""
        import sys

        import numpy

        if "sklearn" not in sys.modules:
            samples = numpy.asarray(self._array(x))
            if not numpy.isfinite(samples).all():
                raise ValueError("samples contain NaN or infinity")
            return samples if y is None else (samples, numpy.asarray(y))
        from sklearn.utils.validation import validate_data

        options = {"dtype": [numpy.float32, numpy.float16], "allow_nd": True}
        if y is None:
            return validate_data(self, x, reset=False, **options)
        return validate_data(self, x, y, multi_output=self._estimator_type == "regressor", y_numeric=self._estimator_type == "regressor", **options)

    def _fit(self, x, y, outputs, loss, targets):
        import numpy

        for name, least in (("epochs", 1), ("batch", 1), ("seed", 0)):
            if not isinstance(value := getattr(self, name), (int, numpy.integer)) or value < least:
                raise ValueError(f"fit: {name} is {value!r}, expected a whole number from {least}")
        each_epoch = (lambda epoch: batches(x, None if y is None else y, batch=self.batch, seed=self.seed, epoch=epoch))
        if y is None and hasattr(x, "__array__"):
            raise ValueError("fit: it requires y to be passed, but the target y is None; without it x is an iterable of batches")
        if y is None and iter(x) is x:
            raise ValueError("fit: an iterator ends after one epoch; give a list of batches, or an object that can be iterated again")
        first = next(iter(each_epoch(0)), None)
        if first is None:
            raise ValueError("fit: there is no sample")
        if str(self._array(first[0]).dtype) not in ("float16", "float32"):
            raise ValueError(f"fit: samples are {self._array(first[0]).dtype}, expected floating numbers; use astype")
        steps = self.epochs * (-(-len(y) // self.batch) if y is not None else sum(1 for _ in x))
        if callable(self.net) and not outputs:
            raise ValueError("fit: batches do not tell how many outputs there are; give the net as a definition")
        definition = self.net(outputs) if callable(self.net) else self.net
        self._take(_models.Net(definition, (self.batch, *first[0].shape[1:]), seed=self.seed))
        found = self.net_.output_shape[-1]
        if outputs and found < outputs:
            raise ValueError(f"fit: the net has {found} outputs, expected {outputs}, one for each class")
        optimizer = _models.Optimizer(self.net_, self.optimizer, schedule=self.schedule, steps=steps)

        @_compile(precision=self.precision)
        def step(samples, wanted, count):
            value = _models.loss(loss, self.net_(samples, training=True, step=count), wanted)
            optimizer.minimize(value)
            return value

        self.history_, done = [], 0
        for epoch in range(self.epochs):
            losses = []
            for samples, wanted in each_epoch(epoch):
                losses.append(step(self._array(samples), self._array(targets(wanted)), _asarray(done, device=self.device)))
                done += 1
            self.history_.append(sum(each.item() for each in losses) / len(losses))
            if not numpy.isfinite(self.history_[-1]):
                raise ValueError(f"fit: the loss of epoch {epoch} is {self.history_[-1]}; a target is no number or no class, or the rate of learning is too high")
        return self

    def _outputs_of(self, x):
        """The net's outputs for samples, as an array of numpy."""
        import sys

        import numpy

        if not hasattr(self, "net_"):
            error = sys.modules["sklearn.exceptions"].NotFittedError if "sklearn.exceptions" in sys.modules else ValueError
            raise error(f"{type(self).__name__}: call fit first")
        x = self._checked(x)
        if len(x) == 0:
            raise ValueError("predict: there is no sample")
        return numpy.concatenate([self._outputs(self._array(rows)).numpy() for rows, _ in batches(x, range(len(x)), batch=self.batch)])


def _targets(x, y):
    """Targets of a score as an array of numpy, as many as samples."""
    import numpy

    y = numpy.asarray(y)
    if y.ndim == 0 or len(y) != len(x):
        raise ValueError(f"score: {len(x)} samples and targets of shape {y.shape}")
    return y


class Classifier(_Estimator):
    """A net as an estimator of classes, which may be numbers or words: `net` is a definition of `models.Net` whose last
    layer has an output for each class, or a function that makes one from the number of classes. `fit` takes arrays, or an iterable of batches of samples and class numbers.

    >>> import numpy
    >>> x = numpy.random.default_rng(0).standard_normal((200, 2)).astype("float32")
    >>> y = numpy.where(x[:, 0] > 0, "right", "left")
    >>> model = nixie.Classifier([{"linear": {"out": 2}}], schedule={"constant": {"rate": 0.1}})
    >>> model.fit(x, y).score(x, y) > 0.95, model.predict(x[:2] * 0 + [[9, 0], [-9, 0]]).tolist()
    (True, ['right', 'left'])
    """

    _estimator_type = "classifier"

    def fit(self, x, y=None):
        """Trains from new parameters; returns the estimator."""
        import sys

        import numpy

        if y is None:
            self.classes_ = None
            return self._fit(x, None, 0, "cross_entropy", lambda wanted: numpy.asarray(wanted, numpy.int32))
        x, y = self._checked(x, y)
        if "sklearn" in sys.modules:
            from sklearn.utils.multiclass import check_classification_targets

            check_classification_targets(y)
        if y.ndim != 1 or y.dtype.kind == "f" and (y % 1 != 0).any():
            raise ValueError(f"fit: targets of {y.dtype} and shape {y.shape} are no classes of samples; Regressor takes numbers")
        self.classes_, numbers = numpy.unique(y, return_inverse=True)
        return self._fit(x, numbers.astype(numpy.int32), len(self.classes_), "cross_entropy", lambda wanted: wanted)

    def _scores(self, x):
        outputs = self._outputs_of(x)
        return outputs if self.classes_ is None else outputs[:, : len(self.classes_)]

    def decision_function(self, x):
        """The net's outputs for samples; of two classes the second's less the first's, [N]."""
        found = self._scores(x)
        return found[:, 1] - found[:, 0] if found.shape[1] == 2 else found

    def predict(self, x):
        """The class of each sample."""
        found = self._scores(x).argmax(axis=1)
        return found if self.classes_ is None else self.classes_[found]

    def predict_proba(self, x):
        """The probability of each class, [N, classes]."""
        import numpy

        outputs = self._scores(x)
        powers = numpy.exp(outputs - outputs.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def score(self, x, y):
        """The part of samples whose class is predicted."""
        return float((self.predict(x) == _targets(x, y)).mean())


class Regressor(_Estimator):
    """A net as an estimator of numbers, by the mean squared error: `net` is a definition of `models.Net`, or a function that
    makes one from the number of outputs.

    >>> import numpy
    >>> x = numpy.random.default_rng(0).standard_normal((200, 2)).astype("float32")
    >>> model = nixie.Regressor([{"linear": {"out": 1}}], schedule={"constant": {"rate": 0.05}}, epochs=40)
    >>> model.fit(x, 2 * x[:, 0] - 1).score(x, 2 * x[:, 0] - 1) > 0.99
    True
    """

    _estimator_type = "regressor"

    def fit(self, x, y=None):
        """Trains from new parameters; returns the estimator."""
        import numpy

        outputs = 0
        if y is not None:
            x, y = self._checked(x, y)
            outputs = 1 if numpy.ndim(y) == 1 else numpy.shape(y)[1]
        return self._fit(x, y, outputs, "mean_squared", lambda wanted: numpy.asarray(wanted, numpy.float32).reshape(len(wanted), -1))

    def predict(self, x):
        """The numbers of each sample, float64: [N], or [N, K] where there are several."""
        found = self._outputs_of(x).astype("float64")
        return found[:, 0] if found.shape[1] == 1 else found

    def score(self, x, y):
        """The coefficient of determination: 1 is best, the mean of y has 0."""
        y = _targets(x, y)
        return float(1 - ((y - self.predict(x)) ** 2).sum() / ((y - y.mean(axis=0)) ** 2).sum())
