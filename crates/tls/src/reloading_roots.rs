//! Trusted certificates that are read again when their files change.

use std::{os::unix::fs::MetadataExt, path::PathBuf, sync::Arc};

use arc_swap::ArcSwapOption;
use rustls::{
    CertificateError, ClientConfig, RootCertStore,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime},
};
use tokio_util::sync::CancellationToken;

use crate::{check_signatures, reload::INTERVAL, roots::TrustPaths};

/// The trusted certificates in the files that the environment names, like in [`crate::environment_client_config`], but
/// always current.
///
/// A server whose key is that of a trusted certificate need not have the name or address by which it is called. The pods of a
/// service share a self-signed certificate, which is the one that they trust. It gets the address of a new pod only when the pod
/// runs, and kubelets update the files up to two minutes later.
#[derive(Debug, Clone)]
pub struct ReloadingRoots(Arc<ReloadingVerifier>);

#[derive(Debug)]
struct ReloadingVerifier {
    named: TrustPaths,
    provider: Arc<CryptoProvider>,
    /// The fingerprint of the files before they were first read.
    first: Fingerprint,
    /// Who is trusted. `None` if there has been no certificate so far; then nobody is.
    current: ArcSwapOption<Trusted>,
}

#[derive(Debug)]
struct Trusted {
    roots: Arc<RootCertStore>,
    verifier: Arc<WebPkiServerVerifier>,
}

/// Identifies the state of the files: their paths, and the inode, size and time of each.
type Fingerprint = Vec<(PathBuf, u64, u64, i64, i64)>;

// === impl ReloadingRoots ===

impl ReloadingRoots {
    /// Reads the files once.
    pub fn of_environment() -> Self {
        Self::of(TrustPaths::by_environment())
    }

    fn of(named: TrustPaths) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // Before the files are read, so that a change in between is seen at the first look.
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
                // The state before the files were read: a change since then is another one.
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

// === impl ReloadingVerifier ===

impl ReloadingVerifier {
    fn read(&self) {
        let roots = Arc::new(self.named.read());
        // Without any certificate no verifier can be built: the previous one stays, or nobody is trusted.
        if let Ok(verifier) =
            WebPkiServerVerifier::builder_with_provider(roots.clone(), self.provider.clone()).build()
        {
            self.current.store(Some(Arc::new(Trusted { roots, verifier })));
        }
    }
}

// === impl Trusted ===

impl Trusted {
    /// Whether the certificate has the key of a trusted one. Who has this key can sign a certificate for any name, so a name would
    /// prove nothing more.
    fn has_key_of(&self, certificate: &CertificateDer<'_>) -> bool {
        // As a root, its key is read in the same way as those of the other roots.
        let mut own = RootCertStore::empty();
        if own.add(certificate.clone().into_owned()).is_err() {
            return false;
        }
        let is_same = |root: &TrustAnchor<'_>, own: &TrustAnchor<'_>| {
            root.name_constraints.is_none() && root.subject_public_key_info == own.subject_public_key_info
        };
        self.roots.roots.iter().any(|root| own.roots.iter().any(|own| is_same(root, own)))
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
        let current = self.current.load_full();
        let trusted = current.ok_or(CertificateError::UnknownIssuer)?;
        let verified =
            trusted.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is looked at last, so everything else about the certificate is right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if trusted.has_key_of(end_entity) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    check_signatures!(provider);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CertificateAuthority, LeafRequest, inspect, install_default_provider, self_signed,
        self_signed_with_key,
    };

    fn leaf(name: &str) -> LeafRequest {
        LeafRequest { dns_names: vec![name.into()], days: 1, ..LeafRequest::default() }
    }

    /// Whether a server with this certificate is accepted, if it is called by this name or address.
    fn accepts(roots: &ReloadingRoots, certificate_pem: &str, name: &'static str) -> bool {
        let pem = inspect::certificates(certificate_pem).unwrap().remove(0).pem;
        let leaf = rustls::pki_types::pem::PemObject::from_pem_slice(pem.as_bytes()).unwrap();
        let name = ServerName::try_from(name).unwrap();
        roots.0.verify_server_cert(&leaf, &[], &name, &[], UnixTime::now()).is_ok()
    }

    /// Whether a certificate of this authority is accepted.
    fn takes(roots: &ReloadingRoots, authority: &CertificateAuthority) -> bool {
        accepts(roots, &authority.issue(&leaf("localhost")).unwrap().certificate_pem, "localhost")
    }

    #[test]
    fn the_key_of_a_trusted_certificate_is_accepted_at_any_address_and_a_certificate_signed_with_it_is_not() {
        install_default_provider();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        let trusting = |pem: &str| {
            std::fs::write(&file, pem).unwrap();
            ReloadingRoots::of(TrustPaths { file: file.to_str().map(Into::into), folders: None })
        };
        let first = self_signed(&leaf("svc")).unwrap();
        let second = self_signed_with_key(&leaf("other"), &first.key_pem).unwrap();
        let roots = trusting(&second.certificate_pem);
        for pair in [&first, &second] {
            assert!(accepts(&roots, &pair.certificate_pem, "10.0.0.1"));
        }
        let foreign = self_signed(&leaf("10.0.0.1")).unwrap();
        assert!(!accepts(&roots, &foreign.certificate_pem, "10.0.0.1"), "the key is another one");

        let authority = CertificateAuthority::new("ours").unwrap();
        let roots = trusting(&authority.pem());
        assert!(takes(&roots, &authority));
        let issued = authority.issue(&leaf("svc")).unwrap();
        assert!(!accepts(&roots, &issued.certificate_pem, "10.0.0.1"));
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
