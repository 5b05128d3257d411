"""A traced program: its array operations in order, and which of them makes what another reads."""

from collections.abc import Iterable

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var

from flaxformer_mt.inspection.flops import array_type

Shape = tuple[int, ...]


class Program:
    """The operations of a jaxpr that its results depend on.

    Args:
      traced: the jaxpr.
      num_params: how many of its arguments, the first ones, are parameters of the model.
    """

    def __init__(self, traced: ClosedJaxpr, num_params: int) -> None:
        jaxpr = traced.jaxpr
        self.equations = _needed(jaxpr.eqns, jaxpr.outvars)
        self._params = frozenset(jaxpr.invars[:num_params])
        self._made: dict[Var, int] = dict.fromkeys(jaxpr.invars[num_params:], -1)
        self._first_read: dict[Var, int] = {}
        self._last_read: dict[Var, int] = {}
        for index, equation in enumerate(self.equations):
            self._made.update(dict.fromkeys(equation.outvars, index))
            for variable in _variables(equation.invars):
                self._first_read.setdefault(variable, index)
                self._last_read[variable] = index
        end = dict.fromkeys(_variables(jaxpr.outvars), len(self.equations))
        self._last_read.update(end)

    def inputs(self, start: int, stop: int, *, numbers_only: bool) -> tuple[Shape, ...]:
        """Shapes of what the operations start..stop read of others; parameters apart.

        `numbers_only` leaves out tokens, positions and masks, unless nothing else is read.
        """
        read = [v for v in self._read(start, stop) if self._made.get(v, start) < start]
        numbers = [v for v in read if _is_number(v)]
        return _shapes(numbers if numbers_only and numbers else read)

    def outputs(self, start: int, stop: int) -> tuple[Shape, ...]:
        """Shapes of what the operations start..stop make for others."""
        made = (v for equation in self.equations[start:stop] for v in equation.outvars)
        return _shapes(v for v in made if self._last_read.get(v, -1) >= stop)

    def num_params(self, start: int, stop: int) -> int:
        """Numbers in the parameters that no operation before start..stop reads."""
        new = (v for v in self._read(start, stop) if self._first_read[v] >= start)
        return sum(array_type(v).size for v in new if v in self._params)

    def _read(self, start: int, stop: int) -> list[Var]:
        equations = self.equations[start:stop]
        return list(dict.fromkeys(v for e in equations for v in _variables(e.invars)))


def _needed(equations: list[JaxprEqn], results: Iterable[Var | Literal]) -> list[JaxprEqn]:
    """Without those that no result depends on."""
    wanted, needed = set(_variables(results)), []
    for equation in reversed(equations):
        if wanted.intersection(equation.outvars):
            wanted.update(_variables(equation.invars))
            needed.append(equation)
    return needed[::-1]


def _variables(atoms: Iterable[Var | Literal]) -> list[Var]:
    return [atom for atom in atoms if not isinstance(atom, Literal)]


def _shapes(variables: Iterable[Var]) -> tuple[Shape, ...]:
    """Numbers before tokens and masks; a scalar only if there is nothing else."""
    found = list(variables)
    arrays = [v for v in found if array_type(v).shape] or found
    return tuple(array_type(v).shape for v in sorted(arrays, key=_is_number, reverse=True))


def _is_number(variable: Var) -> bool:
    return jnp.issubdtype(array_type(variable).dtype, jnp.floating)
