"""Functions of functions: compile, grad, value_and_grad; and tree_map over nested arrays."""

import functools

from . import _core


def tree_map(function, tree, /, *others):
    """The tree with function(end, ...) in place of each end, from this tree and others of its form. Trees are tuples,
    lists and dictionaries; everything else is an end.

    >>> nixie.tree_map(lambda a, b: a - b, {"w": [3, 4]}, {"w": [1, 1]})
    {'w': [2, 3]}
    """
    return _core.tree_map(function, tree, *others)


def compile(function=None, /, *, precision="fp32"):
    """The function, traced once for each combination of shapes, types and constants and then run as one plan; on a GPU
    one CUDA graph. Arguments and results are arrays, and tuples, lists and dictionaries of these. Arrays, those of
    numpy, and floats are inputs of the plan; other arguments are constants, and a new one traces again. What the
    function does besides returning arrays happens while it is traced. `precision` is fp32, ieee, tf32, fp16 or bf16.

    >>> @nixie.compile
    ... def step(w, rate):
    ...     return w - rate * w
    >>> step(nixie.array([1.0, 2.0]), 0.5)
    array([0.5, 1. ], dtype=float32)
    """
    if function is None:
        return functools.partial(compile, precision=precision)
    return functools.update_wrapper(_core.Compiled(function, precision), function)


def value_and_grad(function, argnums=0, *, has_aux=False):
    """A function that returns what `function` does, an array of one element, and its gradient with respect to an
    argument, or to each of several: nested as the argument is. With `has_aux` the function returns a pair, of which
    the first is differentiated.

    >>> nixie.value_and_grad(lambda x: (x * x).sum())(nixie.array([1.0, 2.0]))[1]
    array([2., 4.], dtype=float32)
    """

    @functools.wraps(function)
    def differentiated(*args, **kwargs):
        places = (argnums,) if isinstance(argnums, int) else tuple(argnums)

        def both():
            given, arrays = _core.arguments([args[place] for place in places])
            inner = list(args)
            for place, argument in zip(places, given):
                inner[place] = argument
            value = function(*inner, **kwargs)
            loss = value[0] if has_aux else value
            if not isinstance(loss, _core.Array):
                raise TypeError(f"grad: the function returns a {type(loss).__name__}, expected an array of one element")
            found = iter(_core.gradients(loss, arrays))
            grads = tree_map(lambda end: next(found) if isinstance(end, _core.Array) else None, given)
            return value, grads[0] if isinstance(argnums, int) else tuple(grads)

        result = _core.differentiate(both)
        if _core.is_outermost():
            _core.compute([each for each in _core.leaves(result) if isinstance(each, _core.Array)])
        return result

    return differentiated


def grad(function, argnums=0, *, has_aux=False):
    """The gradient alone, as `value_and_grad` gives it; with `has_aux` a pair of it and the rest.

    >>> nixie.grad(nixie.grad(lambda x: x**3))(nixie.array(2.0)).item()
    12.0
    """
    both = value_and_grad(function, argnums, has_aux=has_aux)

    @functools.wraps(function)
    def gradient(*args, **kwargs):
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def synchronize():
    """Computes every array that has a name and is not computed yet, and waits for the devices: before a clock stops.

    >>> x = nixie.ones(3) * 5
    >>> nixie.synchronize()
    """
    _core.synchronize()


def compute(*arrays):
    """Computes arrays together, and returns them. Without it each is computed when somebody looks at it.

    >>> x = nixie.arange(3)
    >>> nixie.compute(x, x + 1)[1]
    array([1, 2, 3], dtype=int32)
    """
    _core.compute([each for each in _core.leaves(list(arrays)) if isinstance(each, _core.Array)])
    return arrays if len(arrays) != 1 else arrays[0]
