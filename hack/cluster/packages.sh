#!/usr/bin/env bash
# Installs the Debian packages that a cluster with real nodes takes, those that are not there
# yet, and unpacks the ones that the image with Open MPI is made of. Prints the folder of
# these. As root; needs apt, and nothing else that a bare Debian lacks.
set -euo pipefail

nodes=(containerd runc containernetworking-plugins iptables nftables conntrack iproute2)
image=(openmpi-bin openssh-server openssh-client python3-mpi4py dash coreutils libc-bin)
export DEBIAN_FRONTEND=noninteractive

cache=${TRAINJOB_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trainjob-controller}/debian
mkdir -p "$cache"
# One at a time: apt's own lock makes the second fail.
exec 9>"$cache/.lock"
flock 9

# with_lists runs apt-get, and once more with new lists of packages if that fails: those of
# a fresh machine are missing or too old.
with_lists() {
  apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >&2 || { apt-get -qq update >&2 && apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >&2; }
}

missing=()
for package in "${nodes[@]}"; do
  if [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) != "install ok installed" ]]; then missing+=("$package"); fi
done
if ((${#missing[@]})); then
  echo "packages: installing ${missing[*]}" >&2
  with_lists install -y --no-install-recommends "${missing[@]}"
fi

# The image is made of the packages and all that they depend on, as on a machine that has
# none. Nothing of them is installed here, and none of their scripts run.
root=$cache/mpi-$(. /etc/os-release && echo "$VERSION_ID")-$(dpkg --print-architecture)-$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-12)
if [[ ! -d $root ]]; then
  work=$(mktemp -d "$cache/work-XXXXXX")
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work/archives/partial" "$work/root"/{tmp,run/sshd,root,var,dev,proc,sys} "$work/root/usr"/{bin,sbin,lib,lib64}
  touch "$work/status"
  echo "packages: unpacking Open MPI and sshd for an image" >&2
  with_lists install -y --no-install-recommends --download-only -o Dir::State::status="$work/status" -o Dir::Cache::archives="$work/archives" \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root "${image[@]}"
  for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$work/root/$folder"; done
  for package in "$work"/archives/*.deb; do
    # No training program needs these; they are a third of it.
    case $(basename "$package") in perl*|libperl*|libx11*|adduser_*|debconf_*|dpkg_*|tar_*|usrmerge_*) continue ;; esac
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$work/root" \
      --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' --exclude='./usr/share/bash-completion/*'
  done
  chmod 1777 "$work/root/tmp"
  chmod 700 "$work/root/root"
  # What the packages' scripts would have made of it.
  printf 'root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n' >"$work/root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$work/root/etc/group"
  # Keys of hosts that live as long as a job say nothing; images for MPI are all made so.
  printf 'Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n' >"$work/root/etc/ssh/ssh_config.d/jobs.conf"
  mv "$work/root" "$root"
fi
echo "$root"
