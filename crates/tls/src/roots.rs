//! Trusted certificates from the environment.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::TlsError;

/// The trusted certificates of most distributions.
const SYSTEM: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];

/// Creates a client configuration that trusts the certificates in `SSL_CERT_FILE` and in the folders of `SSL_CERT_DIR`. If
/// neither is set, trusts the system's certificates. As in Go, every file of a folder is read, whatever its name, and files
/// without a certificate are ignored. Without any certificate, every server is refused.
pub fn environment_client_config() -> Arc<ClientConfig> {
    Arc::new(trusting(TrustPaths::by_environment().read()))
}

/// Creates a client configuration that trusts the certificates of [`environment_client_config`] and of further PEM texts,
/// each of which must contain at least one.
pub fn extended_client_config(pems: &[String]) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = TrustPaths::by_environment().read();
    for pem in pems {
        let (added, _) = roots
            .add_parsable_certificates(CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok));
        if added == 0 {
            return Err(TlsError::Pem { what: "certificate" });
        }
    }
    Ok(Arc::new(trusting(roots)))
}

fn trusting(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
}

/// The locations of trusted certificates, from the two variables.
#[derive(Debug, Clone)]
pub(crate) struct TrustPaths {
    pub(crate) file: Option<String>,
    pub(crate) folders: Option<String>,
}

// === impl TrustPaths ===

impl TrustPaths {
    pub(crate) fn by_environment() -> Self {
        Self { file: std::env::var("SSL_CERT_FILE").ok(), folders: std::env::var("SSL_CERT_DIR").ok() }
    }

    /// Returns the files with trusted certificates.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let [file, folders] =
            [&self.file, &self.folders].map(|value| value.as_deref().filter(|value| !value.is_empty()));
        if file.is_none() && folders.is_none() {
            return SYSTEM.map(PathBuf::from).into();
        }
        let mut files: Vec<PathBuf> = file.into_iter().map(PathBuf::from).collect();
        for folder in folders.unwrap_or_default().split(':').filter(|folder| !folder.is_empty()) {
            let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
            files.extend(entries.map(|entry| entry.path()).filter(|path| path.is_file()));
        }
        files
    }

    /// Reads the current certificates.
    pub(crate) fn read(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        for file in self.files() {
            let Ok(pem) = std::fs::read(&file) else { continue };
            // As in Go: one certificate that nobody can read does not cost the others of its file.
            roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
        }
        if roots.is_empty() {
            tracing::warn!("No trusted certificate was found: set SSL_CERT_FILE or SSL_CERT_DIR.");
        }
        roots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_named_folders_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tls.crt");
        std::fs::write(&file, "x").unwrap();
        let folders = format!("/nope:{}", folder.path().display());
        let both = TrustPaths { file: Some("/a.pem".into()), folders: Some(folders) };
        assert_eq!(both.files(), [PathBuf::from("/a.pem"), file]);
        let neither = TrustPaths { file: None, folders: Some(String::new()) };
        assert_eq!(neither.files().len(), SYSTEM.len());
    }
}
