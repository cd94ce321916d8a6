//! A pod's files under the state directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::options::ApiAccess;
use crate::private;

/// The folder `<state dir>/pods/<uid>`.
#[derive(Debug, Clone)]
pub(super) struct PodDirectory(PathBuf);

impl PodDirectory {
    /// Creates the folder.
    pub(super) fn create(pods_dir: &Path, uid: &str) -> io::Result<Self> {
        let dir = Self(pods_dir.join(uid));
        private::create_dir(&dir.0)?;
        Ok(dir)
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
        if let Err(error) = fs::remove_dir_all(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, path = %self.0.display(), "Cannot remove the files of a pod.");
        }
    }
}
