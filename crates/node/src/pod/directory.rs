//! A pod's files under the state directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::options::ApiAccess;
use crate::private;

/// The characters of a pod's uid that name its folder. Engines create Unix sockets in TMPDIR, which is a volume of the pod,
/// and the path of a socket has at most 107 bytes.
const SHORT_UID: usize = 8;

/// The folder `<state dir>/pods/<beginning of the uid>`.
#[derive(Debug, Clone)]
pub(super) struct PodDirectory(PathBuf);

impl PodDirectory {
    /// Creates the folder.
    pub(super) fn create(pods_dir: &Path, uid: &str) -> io::Result<Self> {
        let short = pods_dir.join(uid.get(..SHORT_UID).unwrap_or(uid));
        match private::create_new_dir(&short) {
            Ok(()) => Ok(Self(short)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let whole = pods_dir.join(uid);
                private::create_dir(&whole)?;
                Ok(Self(whole))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the credentials with which the pod reaches the API server.
    pub(super) fn write_credentials(&self, namespace: &str, api: &ApiAccess, token: &str) -> io::Result<()> {
        let account = self.service_account();
        private::create_dir(&account)?;
        private::write(&account.join("token"), token.as_bytes())?;
        private::write(&account.join("namespace"), namespace.as_bytes())?;
        let mut cluster = json!({"server": api.url});
        if let Some(ca) = &api.ca_pem {
            let path = account.join("ca.crt");
            private::write(&path, ca.as_bytes())?;
            cluster["certificate-authority"] = json!(path);
        }
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": cluster}],
            "users": [{"name": "pod", "user": {"token": token}}],
            "contexts": [{"name": "pod", "context": {"cluster": "local", "user": "pod", "namespace": namespace}}],
            "current-context": "pod",
        });
        private::write(&self.kubeconfig(), config.to_string().as_bytes())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }

    pub(super) fn service_account(&self) -> PathBuf {
        self.0.join("serviceaccount")
    }

    /// Returns a container's own folder. Its working directory and its termination message are in it.
    pub(super) fn container(&self, name: &str) -> PathBuf {
        self.0.join("containers").join(name)
    }

    /// Returns the folder where a container's process starts if its working directory does not exist here.
    pub(super) fn scratch(&self, name: &str) -> PathBuf {
        self.container(name).join("work")
    }

    pub(super) fn termination_log(&self, name: &str) -> PathBuf {
        self.container(name).join("termination-log")
    }

    /// Returns the file to which a model download writes its progress.
    pub(super) fn progress(&self, name: &str) -> PathBuf {
        self.container(name).join("progress")
    }

    /// Returns the folder of a container's logs.
    pub(super) fn logs(&self, name: &str) -> PathBuf {
        self.container(name).join("logs")
    }

    /// Removes the folder. Files that cannot be removed stay until the node ends.
    pub(super) fn remove(&self) {
        if let Err(error) = private::if_found(fs::remove_dir_all(&self.0)) {
            tracing::debug!(%error, path = %self.0.display(), "Cannot remove the files of a pod.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_have_short_folders_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let create = |uid: &str| PodDirectory::create(dir.path(), uid).unwrap().0;
        let uids = ["01234567-89ab-4def-8123-456789abcdef", "01234567-0000-4def-8123-456789abcdef", "short"];
        let folders = uids.map(create);
        assert_eq!(folders[0], dir.path().join("01234567"));
        assert_eq!(folders[1], dir.path().join(uids[1]));
        assert_eq!(folders[2], dir.path().join("short"));
    }
}
