# Sourced by the scripts beside it. `environment [EXTRA]` puts the project's own Python on the path,
# installing what ops/constraints.txt names when something it depends on has changed. An extra that
# another script has asked for stays.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { echo "${0##*/}: $*" >&2; exit 1; }

# Print a Python: of the tested versions if there is one, else a newer one.
find_python() {
    local below name
    for below in 15 99; do
        for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
            "$name" -c "import sys; sys.exit(not (3, 11) <= sys.version_info < (3, $below))" \
                2>/dev/null && echo "$name" && return
        done
    done
    return 1
}

# Print what tells this environment from one that would be made now.
fingerprint() {
    "$1" -c 'import hashlib, pathlib, sys
files = ["setup.cfg", "pyproject.toml", "ops/constraints.txt", "ops/env.sh"]
parts = [sys.version, sys.prefix, str(pathlib.Path.cwd()), *(pathlib.Path(f).read_text() for f in files)]
print(hashlib.sha256("\0".join(parts).encode()).hexdigest())'
}

# Print the extras of the finished environment $1, if it is one that would be made now.
extras_of() {
    [[ -x $1/bin/python && -e $1/made && ! -e $1/unfinished ]] || return 1
    local now made extras; now=$(fingerprint "$1/bin/python" 2>/dev/null) || return 1
    read -r made extras <"$1/made"
    [[ $made == "$now" ]] && echo "$extras"
}

# Whether the finished environment $1 has the extra $2, perhaps beside others.
is_ready() {
    local extras; extras=$(extras_of "$1") || return 1
    [[ -z $2 || " $extras " == *" $2 "* ]]
}

make_environment() {
    local env=$1 extras python part
    extras=$(extras_of "$env" || true) # kept, or two scripts would undo each other's work
    extras=${extras:+$extras }$2
    python=$(find_python) || fail "needs Python 3.11 or newer, and found none"
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python lacks venv or pip (on Debian and Ubuntu: apt install python3-venv)"
    echo "${0##*/}: making the Python environment in $env (a minute, once)" >&2
    # What was interrupted, or made by another Python or for another folder, is not worth mending.
    if [[ -e $env/unfinished ]] || ! grep -qsF "$env/bin/" "$env/bin/pip"; then rm -rf "$env"; fi
    mkdir -p "$env/src" || fail "$env cannot be written"
    touch "$env/unfinished"
    "$python" -m venv "$env" >"$env/install.log" 2>&1 || fail "no environment: see $env/install.log"
    # Installed through links, so that nothing is written beside the sources.
    for part in .github setup.cfg pyproject.toml README.md gw actors channels metrics loadtests; do
        ln -sfn "$PWD/$part" "$env/src/$part"
    done
    PIP_CONSTRAINT=ops/constraints.txt PIP_BUILD_CONSTRAINT=ops/constraints.txt \
        "$env/bin/python" -m pip install --disable-pip-version-check -c ops/constraints.txt \
        -e "$env/src${extras:+[${extras// /,}]}" >>"$env/install.log" 2>&1 ||
        fail "installing failed: $(grep -o 'ERROR: .*' "$env/install.log" | tail -n 1)" \
            "(all of it: $env/install.log)"
    echo "$(fingerprint "$env/bin/python") $extras" >"$env/made"
    rm "$env/unfinished"
}

environment() {
    local extra=${1:-} env=$PWD/.venv
    if [[ ! -w $env && ( -e $env || ! -w . ) ]]; then
        env=${XDG_CACHE_HOME:-${HOME:?is not set}/.cache}/model-gateway/$(cksum <<<"$PWD" | tr ' ' -)
    fi
    if ! is_ready "$env" "$extra"; then
        exec 9<ops/env.sh # one of several at once makes it, the others wait
        if command -v flock >/dev/null; then flock 9; fi
        if ! is_ready "$env" "$extra"; then make_environment "$env" "$extra"; fi
        exec 9<&-
    fi
    export PATH=$env/bin:$PATH VIRTUAL_ENV=$env MYPY_CACHE_DIR=$env/cache/mypy
    export RUFF_CACHE_DIR=$env/cache/ruff HYPOTHESIS_STORAGE_DIRECTORY=$env/cache/hypothesis
    export PYTEST_ADDOPTS="${PYTEST_ADDOPTS:-} -o cache_dir='$env/cache/pytest'"
    unset PYTHONHOME PYTHONPATH
}

# The console is tested in Chromium, of the distribution's packages.
browser() {
    [[ ! -x /usr/bin/chromium ]] || return 0
    if ((EUID == 0)) && command -v apt-get >/dev/null; then
        apt-get install -y -qq chromium >"$VIRTUAL_ENV/chromium.log" 2>&1 && return 0
        { apt-get update -qq && apt-get install -y -qq chromium; } >"$VIRTUAL_ENV/chromium.log" 2>&1 && return 0
    fi
    fail "needs /usr/bin/chromium for the tests of the console (on Debian: apt install chromium)"
}
