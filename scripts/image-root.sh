#!/bin/sh
# Fills a folder with the file system of the image: scripts/image-root.sh FOLDER LONGBOAT LONGBOAT-ENGINE CA-CERTIFICATES.
# The Dockerfile calls it. The programs are static, so there is no shell and no libc beside them.
set -eu
image=$1
mkdir -p "$image/app" "$image/storage-initializer/scripts" "$image/etc/ssl/certs" "$image/tmp"
chmod 1777 "$image/tmp"
cp "$2" "$image/longboat"
cp "$3" "$image/longboat-engine"
cp "$4" "$image/etc/ssl/certs/ca-certificates.crt"
# Names under which pods start the roles (crates/longboat/src/role.rs): the reference's manifests have them too.
for name in /manager /app/epp /app/pd-sidecar /storage-initializer/scripts/initializer-entrypoint; do
  ln -sf /longboat "$image$name"
done
echo 'longboat:x:1000:1000::/tmp:/longboat' > "$image/etc/passwd"
echo 'longboat:x:1000:' > "$image/etc/group"
