//! Trusted certificates that are read again when their files change.

use std::{os::unix::fs::MetadataExt, path::PathBuf, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio_util::sync::CancellationToken;

use crate::roots::TrustPaths;

/// How often the files are checked for changes.
const INTERVAL: Duration = Duration::from_secs(2);

/// The trusted certificates in the files that the environment names, like in [`crate::environment_client_config`], but
/// always current.
#[derive(Debug, Clone)]
pub struct ReloadingRoots(Arc<ReloadingVerifier>);

#[derive(Debug)]
struct ReloadingVerifier {
    named: TrustPaths,
    provider: Arc<CryptoProvider>,
    /// The fingerprint of the files before they were first read.
    first: Fingerprint,
    /// The verifier. `None` if there has been no certificate so far; then nobody is trusted.
    current: ArcSwapOption<WebPkiServerVerifier>,
}

/// Identifies the state of the files: their paths, and the inode, size and time of each.
type Fingerprint = Vec<(PathBuf, u64, u64, i64, i64)>;

// === impl FollowedRoots ===

impl ReloadingRoots {
    /// Reads the files once.
    pub fn of_environment() -> Self {
        Self::of(TrustPaths::by_environment())
    }

    fn of(named: TrustPaths) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let first = fingerprint(&named);
        let followed = ReloadingVerifier { named, provider, first, current: ArcSwapOption::empty() };
        followed.read();
        Self(Arc::new(followed))
    }

    /// Creates a client configuration that uses the certificates at the time of each handshake. Sessions are never resumed,
    /// because a resumed session is not verified again.
    pub fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::builder()
            .dangerous()
            .with_custom_certificate_verifier(self.0.clone())
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        config
    }

    /// Reads the files again whenever they change, until `cancel`.
    pub async fn follow(self, cancel: CancellationToken) {
        let mut seen = self.0.first.clone();
        while cancel.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
            let followed = self.0.clone();
            let looking = tokio::task::spawn_blocking(move || fingerprint(&followed.named));
            let Ok(now) = looking.await else { return };
            if now != seen {
                let followed = self.0.clone();
                if tokio::task::spawn_blocking(move || followed.read()).await.is_err() {
                    return;
                }
                seen = now;
                tracing::info!("Read the trusted certificates again.");
            }
        }
    }
}

fn fingerprint(named: &TrustPaths) -> Fingerprint {
    let look = |path: PathBuf| {
        let found = std::fs::metadata(&path).ok()?;
        Some((path, found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
    };
    let mut all: Fingerprint = named.files().into_iter().filter_map(look).collect();
    all.sort_unstable();
    all
}

// === impl Followed ===

impl ReloadingVerifier {
    fn read(&self) {
        let roots = Arc::new(self.named.read());
        // Without any certificate no verifier can be built: the previous one stays, or nobody is trusted.
        if let Ok(verifier) =
            WebPkiServerVerifier::builder_with_provider(roots, self.provider.clone()).build()
        {
            self.current.store(Some(verifier));
        }
    }
}

impl ServerCertVerifier for ReloadingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.current.load_full() {
            Some(current) => {
                current.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CertificateAuthority, LeafRequest, inspect, install_default_provider};

    /// Whether a certificate of this authority is accepted.
    fn takes(roots: &ReloadingRoots, authority: &CertificateAuthority) -> bool {
        let request = LeafRequest { dns_names: vec!["localhost".into()], days: 1, ..LeafRequest::default() };
        let issued = authority.issue(&request).unwrap();
        let pem = inspect::certificates(&issued.certificate_pem).unwrap().remove(0).pem;
        let leaf = rustls::pki_types::pem::PemObject::from_pem_slice(pem.as_bytes()).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        roots.0.verify_server_cert(&leaf, &[], &name, &[], UnixTime::now()).is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_trusted_follows_the_file_and_an_empty_file_changes_nothing() {
        install_default_provider();
        let (one, two) =
            (CertificateAuthority::new("one").unwrap(), CertificateAuthority::new("two").unwrap());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        let roots = ReloadingRoots::of(TrustPaths { file: file.to_str().map(Into::into), folders: None });
        assert!(!takes(&roots, &one), "nobody is trusted without a certificate");
        let cancel = CancellationToken::new();
        let following = tokio::spawn(roots.clone().follow(cancel.clone()));
        for (trusted, other) in [(&one, &two), (&two, &one)] {
            // Replaces the file by another one, like Kubernetes.
            let new = folder.path().join("new");
            std::fs::write(&new, trusted.pem()).unwrap();
            std::fs::rename(&new, &file).unwrap();
            while !takes(&roots, trusted) {
                tokio::time::sleep(INTERVAL).await;
            }
            assert!(!takes(&roots, other));
        }
        std::fs::write(&file, "").unwrap();
        for _ in 0..3 {
            tokio::time::sleep(INTERVAL).await;
        }
        assert!(takes(&roots, &two));
        cancel.cancel();
        following.await.unwrap();
    }
}
