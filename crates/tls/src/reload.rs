//! A server certificate that is reloaded when its files change.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_util::sync::CancellationToken;

use crate::{KeyPair, ServerOptions, TlsError, config::certified_key};

/// How often the files are read. Kubernetes updates a mounted secret by replacing a symlink, which file watches on the
/// target never see. Reading two small files this often costs nothing, and a new certificate is soon in use.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

/// A server configuration whose certificate can be replaced at run time.
#[derive(Debug)]
pub struct ReplaceableConfig {
    config: Arc<ServerConfig>,
    current: Arc<CurrentCertificate>,
}

/// The files of a certificate and its key, which are read again when they change.
#[derive(Debug, Clone)]
pub struct KeyPairFiles {
    /// The certificate, followed by its issuers.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// How often the files are read.
    pub interval: Duration,
}

// === impl ReplaceableConfig ===

impl ReplaceableConfig {
    /// Creates a configuration with `pair`.
    pub fn new(pair: &KeyPair, options: &ServerOptions) -> Result<Self, TlsError> {
        let current = Arc::new(CurrentCertificate(ArcSwap::from_pointee(certified_key(pair)?)));
        Ok(Self { config: options.config(current.clone())?, current })
    }

    /// Uses `pair` for new connections. Open connections do not change. An unusable pair changes nothing and is an error.
    pub fn replace(&self, pair: &KeyPair) -> Result<(), TlsError> {
        self.current.0.store(Arc::new(certified_key(pair)?));
        Ok(())
    }

    /// Returns the configuration for accepting connections. It stays valid across replacements.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

// === impl KeyPairFiles ===

impl KeyPairFiles {
    /// Files that may have any names.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into(), interval: INTERVAL }
    }

    /// `tls.crt` and `tls.key` of a folder.
    pub fn of_folder(dir: &Path) -> Self {
        Self::new(dir.join("tls.crt"), dir.join("tls.key"))
    }

    /// Reads the pair now, and again whenever it changes, until `cancel`. An unusable pair is an error now. Later it is
    /// logged, and the last usable pair stays. Returns the configuration for accepting connections, which stays valid.
    pub async fn watch(
        self,
        options: &ServerOptions,
        cancel: CancellationToken,
    ) -> Result<Arc<ServerConfig>, TlsError> {
        let first = self.read().await?;
        let served = ReplaceableConfig::new(&first, options)?;
        let config = served.config();
        // The files may have changed since they were read: the task compares them with what was read.
        tokio::spawn(self.follow(first, served, cancel));
        Ok(config)
    }

    async fn read(&self) -> Result<KeyPair, TlsError> {
        let text = async |path: &Path| {
            let text = tokio::fs::read_to_string(path).await;
            text.map_err(|source| TlsError::Read { path: path.to_owned(), source })
        };
        Ok(KeyPair { certificate_pem: text(&self.certificate).await?, key_pem: text(&self.key).await? })
    }

    async fn follow(self, mut seen: KeyPair, served: ReplaceableConfig, cancel: CancellationToken) {
        let mut problem = String::new();
        while cancel.run_until_cancelled(tokio::time::sleep(self.interval)).await.is_some() {
            let reloaded = match self.read().await {
                Ok(pair) if pair == seen => Ok(()),
                Ok(pair) => served.replace(&pair).map(|()| {
                    seen = pair;
                    tracing::info!(file = %self.certificate.display(), "Reloaded the server certificate.");
                }),
                Err(error) => Err(error),
            };
            // The writer may have written only one of the two files yet; the next check sees both. What stays wrong is said once.
            let found = reloaded.err().map(|error| error.to_string()).unwrap_or_default();
            if !found.is_empty() && found != problem {
                tracing::warn!(error = found, file = %self.certificate.display(), "Kept the previous server certificate.");
            }
            problem = found;
        }
    }
}

#[derive(Debug)]
struct CurrentCertificate(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;
    use crate::{
        CertificateAuthority, ClientCertificates, LeafRequest, client_config, insecure_client_config,
        install_default_provider,
    };

    fn localhost() -> LeafRequest {
        LeafRequest {
            common_name: "test".into(),
            dns_names: vec!["localhost".into()],
            ips: vec!["127.0.0.1".parse().unwrap()],
            days: 1,
            ..LeafRequest::default()
        }
    }

    fn write(dir: &Path, pair: &KeyPair) {
        std::fs::write(dir.join("tls.crt"), &pair.certificate_pem).unwrap();
        std::fs::write(dir.join("tls.key"), &pair.key_pem).unwrap();
    }

    async fn greet(
        listener: &TcpListener,
        server: Arc<ServerConfig>,
        client: Arc<rustls::ClientConfig>,
    ) -> std::io::Result<String> {
        let address = listener.local_addr()?;
        let serve = async {
            let (stream, _) = listener.accept().await?;
            let mut stream = TlsAcceptor::from(server).accept(stream).await?;
            stream.write_all(b"hello").await?;
            stream.shutdown().await
        };
        let ask = async {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from("localhost").unwrap();
            let mut stream = TlsConnector::from(client).connect(name, stream).await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            Ok(text)
        };
        let (_, answer) = tokio::join!(serve, ask);
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_certificate_is_served_without_a_restart() {
        install_default_provider();
        let dir = tempfile::tempdir().unwrap();
        let (first, second) =
            (CertificateAuthority::new("one").unwrap(), CertificateAuthority::new("two").unwrap());
        write(dir.path(), &first.issue(&localhost()).unwrap());
        let cancel = CancellationToken::new();
        let files = KeyPairFiles::of_folder(dir.path());
        let config = files.watch(&ServerOptions::default(), cancel.clone()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let trust_first = client_config(&first.pem(), &[]).unwrap();
        let trust_second = client_config(&second.pem(), &[]).unwrap();
        assert_eq!(greet(&listener, config.clone(), trust_first.clone()).await.unwrap(), "hello");
        assert!(greet(&listener, config.clone(), trust_second.clone()).await.is_err());

        write(dir.path(), &second.issue(&localhost()).unwrap());
        for _ in 0..200 {
            tokio::time::sleep(INTERVAL).await;
            if greet(&listener, config.clone(), trust_second.clone()).await.is_ok() {
                break;
            }
        }
        assert_eq!(greet(&listener, config.clone(), trust_second.clone()).await.unwrap(), "hello");
        // A new client is necessary: the old one would resume its session without verifying the certificate.
        let trust_first = client_config(&first.pem(), &[]).unwrap();
        assert!(greet(&listener, config.clone(), trust_first).await.is_err());

        std::fs::write(dir.path().join("tls.crt"), "not a certificate").unwrap();
        tokio::time::sleep(INTERVAL * 3).await;
        assert_eq!(greet(&listener, config.clone(), trust_second).await.unwrap(), "hello");
        cancel.cancel();
    }

    #[tokio::test]
    async fn a_client_that_verifies_nothing_accepts_a_self_signed_server() {
        install_default_provider();
        let pair = crate::self_signed(&localhost()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = crate::server_config(&pair, &[]).unwrap();
        assert_eq!(greet(&listener, server, insecure_client_config(&[])).await.unwrap(), "hello");
    }

    #[tokio::test]
    async fn a_certificate_is_trusted_by_who_trusts_an_older_or_newer_one_with_its_key() {
        install_default_provider();
        let old = crate::self_signed(&localhost()).unwrap();
        let further = LeafRequest { dns_names: vec!["localhost".into(), "more".into()], ..localhost() };
        let new = crate::self_signed_with_key(&further, &old.key_pem).unwrap();
        let other = crate::self_signed(&localhost()).unwrap();
        for (served, trusted, expected) in [(&old, &new, true), (&new, &old, true), (&other, &old, false)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let server = crate::server_config(served, &[]).unwrap();
            let client = client_config(&trusted.certificate_pem, &[]).unwrap();
            let greeting = greet(&listener, server, client).await;
            assert_eq!(greeting.is_ok(), expected, "{greeting:?}");
        }
        assert!(crate::self_signed_with_key(&localhost(), "no key").is_err());
    }

    #[tokio::test]
    async fn a_server_that_asks_for_certificates_greets_only_clients_of_its_ca() {
        install_default_provider();
        let (ours, other) =
            (CertificateAuthority::new("ours").unwrap(), CertificateAuthority::new("other").unwrap());
        let options = ServerOptions {
            clients: ClientCertificates::SignedBy(ours.pem().into()),
            ..ServerOptions::default()
        };
        let server = ReplaceableConfig::new(&crate::self_signed(&localhost()).unwrap(), &options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stranger = insecure_client_config(&[]);
        let caller = |ca: &CertificateAuthority| {
            let pair = ca.issue(&LeafRequest { client_auth: true, ..localhost() }).unwrap();
            crate::with_client_certificate(&stranger, &pair).unwrap()
        };
        assert_eq!(greet(&listener, server.config(), caller(&ours)).await.unwrap(), "hello");
        assert!(greet(&listener, server.config(), caller(&other)).await.is_err());
        assert!(greet(&listener, server.config(), stranger).await.is_err());
        let unusable =
            ServerOptions { clients: ClientCertificates::SignedBy("no certificate".into()), ..options };
        assert!(ReplaceableConfig::new(&crate::self_signed(&localhost()).unwrap(), &unusable).is_err());
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        install_default_provider();
        let (one, two) =
            (crate::self_signed(&localhost()).unwrap(), crate::self_signed(&localhost()).unwrap());
        let mixed = KeyPair { certificate_pem: one.certificate_pem, key_pem: two.key_pem };
        assert!(matches!(crate::server_config(&mixed, &[]), Err(TlsError::KeyMismatch)));
        assert!(client_config("", &[]).is_err());
    }
}
