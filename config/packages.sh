# packages.sh - lists the Debian packages that Scree needs, and installs them; sourced by quickstart and tests/run.
# shellcheck shell=bash disable=SC2034

# g++ brings the C++ library that RocksDB needs.
build_packages=(gcc g++ cmake ninja-build libuv1-dev libmicrohttpd-dev libssl-dev libseccomp-dev libjansson-dev libinih-dev librocksdb-dev
    libsnappy-dev liblz4-dev libzstd-dev libbz2-dev zlib1g-dev libxxhash-dev libjemalloc-dev liblzf-dev libhiredis-dev
    liblua5.1-0-dev)
client_packages=(redis-tools) # redis-cli, to try what quickstart has started
test_packages=(check clang libclang-rt-14-dev clang-format cppcheck shellcheck ccache git pkg-config
    python3 python3-redis python3-yaml prometheus redis-server rocksdb-tools iproute2 debootstrap dpkg-dev rclone
    python3-rq python3-celery golang-go golang-etcd-server-dev chromium chromium-driver python3-selenium fonts-dejavu-core curl strace)
rocksdb_packages=(dpkg-dev) # only for config/rocksdb
bench_packages=(nutcracker haproxy python3-matplotlib)

# packages_install yes|no package... - installs missing packages. With "no", or without permission to install, prints
# one line with the missing packages and returns 1.
packages_install() {
    local may=$1 missing=() package sudo=()
    shift
    command -v dpkg-query >/dev/null || {
        echo "dpkg is missing: packages can only be installed on Debian" >&2
        return 1
    }
    for package in "$@"; do
        # shellcheck disable=SC2016
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    if [[ $may != yes ]]; then
        echo "missing packages: ${missing[*]} (run without --no-install to install them)" >&2
        return 1
    fi
    if ((EUID != 0)); then
        command -v sudo >/dev/null || {
            echo "missing packages: ${missing[*]}; install them as root: apt-get install ${missing[*]}" >&2
            return 1
        }
        sudo=(sudo)
    fi
    echo "installing Debian packages: ${missing[*]}"
    "${sudo[@]}" apt-get -qq update >/dev/null || echo "apt-get update failed: continuing with the existing package lists" >&2
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
        "${missing[@]}" >/dev/null || {
        echo "apt-get could not install ${missing[*]}" >&2
        return 1
    }
}
