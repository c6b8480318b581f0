#!/usr/bin/env bash
# Fills the current folder with MIT Kerberos and libsasl2, from Debian's packages, which are unpacked and not installed, with
# gssapi, and with confluent-kafka, for a librdkafka that has GSSAPI. No root is needed. Arguments: a Python, and its MULTIARCH.
set -euo pipefail
python=$1 lib=$PWD/usr/lib/$2

apt() { apt-get -qq -o Dir::State::Lists="$PWD/lists" -o Dir::Cache="$PWD/cache" -o APT::Sandbox::User= -o Debug::NoLocking=1 "$@"; }
mkdir -p lists/partial cache/archives/partial "$lib"
apt update
apt install --yes --no-install-recommends --download-only \
  krb5-kdc krb5-admin-server krb5-user libkrb5-dev libsasl2-dev libsasl2-modules-gssapi-mit
find cache/archives -name '*.deb' -exec dpkg -x {} . \;  # without those that are installed

export CPATH=$PWD/usr/include LIBRARY_PATH=$lib LD_LIBRARY_PATH=$lib
npm pack --silent @confluentinc/kafka-javascript@1.10.1  # has the source of librdkafka 2.15.1
tar xzf confluentinc-kafka-javascript-*.tgz
(
  cd package/deps/librdkafka
  ./configure --prefix="$OLDPWD/usr" --libdir="$lib" --enable-sasl --disable-curl --disable-zstd --disable-optimization
  make -C src
  make -C src install
)
"$python" -m pip install --quiet --no-deps --no-binary confluent-kafka --target python 'confluent-kafka==2.15.*'
PATH=$PWD/usr/bin:$PATH CPATH=$CPATH/mit-krb5:$CPATH LIBRARY_PATH=$lib/mit-krb5:$lib GSSAPI_COMPILER_ARGS=-DHAS_GSSAPI_EXT_H \
  "$python" -m pip install --quiet --target python 'gssapi==1.12.*'
rm -rf lists cache package ./*.tgz
