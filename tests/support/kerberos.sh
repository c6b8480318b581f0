#!/usr/bin/env bash
# Fills the current folder with MIT Kerberos, from Debian's packages, which are unpacked and not installed, and with gssapi from
# PyPI, which is compiled for a Python. No root is needed. Arguments: the Python, and its MULTIARCH.
set -euo pipefail
python=$1 lib=$PWD/usr/lib/$2

apt() { apt-get -qq -o Dir::State::Lists="$PWD/lists" -o Dir::Cache="$PWD/cache" -o APT::Sandbox::User= -o Debug::NoLocking=1 "$@"; }
mkdir -p lists/partial cache/archives/partial
apt update
apt install --yes --no-install-recommends --download-only krb5-kdc krb5-admin-server libkrb5-dev
find cache/archives -name '*.deb' -exec dpkg -x {} . \;  # without those that are installed

PATH=$PWD/usr/bin:$PATH CPATH=$PWD/usr/include LIBRARY_PATH=$lib LD_LIBRARY_PATH=$lib GSSAPI_COMPILER_ARGS=-DHAS_GSSAPI_EXT_H \
  "$python" -m pip install --quiet --target python 'gssapi==1.12.*'
rm -rf lists cache
