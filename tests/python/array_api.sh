#!/usr/bin/env bash
# Runs the Array API standard's tests (data-apis/array-api-tests) on the package of build/release, at 100 examples each;
# further arguments go to pytest. array_api_expected.txt lists what may fail, with the reasons; it fails here if it passes.
# ARRAY_API_TESTS names a checkout of the tests; without it one is cloned.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD venv=build/array-api/venv tests=${ARRAY_API_TESTS:-build/array-api/tests}
commit=cf7bc9f6b4955230262d189bb0fb1d634f534620 # later ones want complex numbers

if [[ ! -d $tests ]]; then
  git clone --quiet --recurse-submodules https://github.com/data-apis/array-api-tests "$tests"
  git -C "$tests" checkout --quiet --recurse-submodules "$commit"
fi
if [[ ! -x $venv/bin/pytest ]]; then
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet pytest==9.2.0 pytest-json-report==1.5.0 hypothesis==6.170.17 ndindex==1.10.1 numpy==2.4.6
fi
venv=$(realpath "$venv")
cd "$tests"
export PYTHONPATH=$root/build/release/python PYTHONDONTWRITEBYTECODE=1
export ARRAY_API_TESTS_MODULE=nixie ARRAY_API_TESTS_SKIP_DTYPES=complex64,complex128
exec "$venv/bin/python" -m pytest -q -W ignore -p no:cacheprovider -o xfail_strict=True array_api_tests --disable-deadline \
  --xfails-file="$root/tests/python/array_api_expected.txt" -k 'not imag' "$@"
