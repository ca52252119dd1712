#!/bin/bash
# Runs in the image with Flux and moves Flux to the volume that it shares with the
# training container, beside the configuration of this node's broker.
set -eu
. /etc/flux-config/job.sh
config=/mnt/flux/config
mkdir -p "$config"/etc/curve "$config"/etc/flux/config "$config"/etc/flux/system/cron.d "$config"/run/flux "$config"/var/lib/flux
cp /etc/flux-config/broker.toml "$config"/etc/flux/config/broker.toml
echo "$hosts" >"$config"/etc/flux/system/hostlist

# The image's view is one folder of links into /opt/software, whatever it is called.
mkdir -p /mnt/flux/view
for view in /opt/views/._view/*; do cp -R "$view"/. /mnt/flux/view/; done
cp -R /opt/software /mnt/flux/
