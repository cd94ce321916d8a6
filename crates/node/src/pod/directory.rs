//! A pod's files under the state directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::options::ApiAccess;
use crate::private;

/// `<state dir>/pods/<uid>`.
#[derive(Debug, Clone)]
pub(super) struct PodDirectory(PathBuf);

impl PodDirectory {
    /// Makes the folder.
    pub(super) fn create(pods_dir: &Path, uid: &str) -> io::Result<Self> {
        let dir = Self(pods_dir.join(uid));
        private::create_dir(&dir.0)?;
        Ok(dir)
    }

    /// Writes the credentials by which the pod reaches the API server.
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

    /// A container's own folder: it starts there, and its termination message is beside it.
    pub(super) fn container(&self, name: &str) -> PathBuf {
        self.0.join("containers").join(name)
    }

    /// Where a container's process starts when its working directory is not here.
    pub(super) fn scratch(&self, name: &str) -> PathBuf {
        self.container(name).join("work")
    }

    pub(super) fn termination_log(&self, name: &str) -> PathBuf {
        self.container(name).join("termination-log")
    }

    /// Where a container that downloads a model writes how far it is.
    pub(super) fn progress(&self, name: &str) -> PathBuf {
        self.container(name).join("progress")
    }

    /// A container's logs.
    pub(super) fn logs(&self, name: &str) -> PathBuf {
        self.container(name).join("logs")
    }

    /// Removes everything. What cannot be removed is left to the end of the node.
    pub(super) fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, path = %self.0.display(), "cannot remove a pod's files");
        }
    }
}
