#!/bin/bash
# Runs in the training container: starts this node's broker. The first node runs the
# command it is given on all of them; without a command it keeps the brokers up for a
# session by hand. The others follow until the first has finished.
set -u
. /etc/flux-config/job.sh
view=/mnt/flux/view config=/mnt/flux/config

# The links in the view lead there. Behind the image's own PATH: Flux brings a Python.
cp -R /mnt/flux/software/. /opt/software/
export PATH=$PATH:$view/bin
for python in "$view"/lib/python3*; do
  export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$python/site-packages
  # The view's plain name leads to a place of the image it was made in.
  interpreter=$view/bin/$(basename "$python")
  if [ -x "$interpreter" ]; then
    ln -sf "$interpreter" "$view"/bin/python3
    ln -sf "$interpreter" "$view"/bin/python
  fi
done
export FLUX_RC_EXTRA=$view/etc/flux/rc1.d

# Flux wants its certificate to be readable by its user alone.
install -m 0600 /curve/curve.cert "$config"/etc/curve/curve.cert || exit 1
# shellcheck disable=SC2086 # a list of options
flux R encode --hosts="$hosts" $resources >"$config"/etc/flux/system/R || exit 1

options=(
  --config-path "$config"/etc/flux/config
  -Scron.directory="$config"/etc/flux/system/cron.d
  -Stbon.fanout=256
  -Srundir="$config"/run/flux
  -Sstatedir="$config"/var/lib/flux
  -Slocal-uri=local://"$config"/run/flux/local
  -Slog-stderr-level=0
  -Slog-stderr-mode=local
)
if [ "$(hostname)" = "$first" ]; then
  if [ $# -eq 0 ]; then exec flux broker "${options[@]}"; fi
  # shellcheck disable=SC2086 # a list of options
  exec flux broker "${options[@]}" flux run $flags "$@"
fi
until flux broker "${options[@]}"; do
  echo "The first node cannot be reached yet, or has lost this one. Trying again in 15 seconds."
  sleep 15
done
