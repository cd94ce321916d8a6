//! Flags of the webhook server.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use longboat_tls::{MinVersion, ServerOptions, Suite};

/// Settings of the webhook server.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Address of the webhook server. Default: all addresses.
    #[arg(long, value_name = "HOST")]
    pub webhook_host: Option<IpAddr>,

    /// Port of the webhook server; 0 for any free port.
    #[arg(long, default_value_t = 9443, value_name = "PORT")]
    pub webhook_port: u16,

    /// Folder with `tls.crt` and `tls.key`, reloaded when they change. If not given, the controller creates its own CA,
    /// keeps it in a Secret, and writes it into the webhook configurations and CRDs.
    #[arg(long, value_name = "DIR")]
    pub webhook_cert_dir: Option<PathBuf>,

    /// Further name or address of the webhooks in certificates of the controller's own CA; repeatable.
    #[arg(long = "webhook-san", value_name = "NAME")]
    pub webhook_names: Vec<String>,

    /// Minimum TLS version: VersionTLS12 or VersionTLS13.
    #[arg(long, value_name = "VERSION")]
    pub tls_min_version: Option<MinVersion>,

    /// Cipher suites of TLS 1.2, by their Go names. Default: all safe suites.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub tls_cipher_suites: Vec<Suite>,

    /// Offer HTTP/2. Without effect if --tls-min-version is given.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub enable_http2: Option<bool>,

    /// Limits that no flag sets.
    #[arg(skip)]
    pub limits: Limits,
}

/// Limits on what clients of the webhook server may send, and on how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest AdmissionReview in bytes. It holds two objects, and etcd stores objects of up to 1.5 MiB.
    pub admission_body: usize,
    /// Largest ConversionReview in bytes. It holds every object of a list: 48,000 services of 1 KiB, or 8,000 of 6 KiB.
    pub conversion_body: usize,
    /// Bytes of all bodies that have arrived, together. Their answers need the same memory again, and both fit into the 300 MiB of
    /// an installation. A body that finds no room is refused.
    pub bodies: usize,
    /// Bytes of long heads that have not arrived whole, together. A connection beyond them is closed.
    pub heads: usize,
    /// Concurrent connections. Each API server keeps a handful.
    pub connections: usize,
    /// How long a TLS handshake or a body may take. API servers give up after 30 seconds.
    pub patience: Duration,
    /// How long a client may take for its first request, and for the head of each. With HTTP/1 also how long an idle connection stays
    /// open. Longer than the 90 seconds for which Go's clients keep a connection, so that this server never closes one just as a
    /// request arrives.
    pub idle: Duration,
    /// Grace period for open requests at shutdown.
    pub drain: Duration,
    /// How often the certificate files are checked for changes.
    pub reload: Duration,
}

/// The flags contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Cipher suites of TLS 1.3 cannot be configured.
    #[error(
        "--tls-cipher-suites has no effect with --tls-min-version=VersionTLS13, because cipher suites of \
         TLS 1.3 cannot be chosen: remove one of the flags"
    )]
    SuitesOfTls13,
}

// === impl Settings ===

impl Settings {
    /// Returns the TLS options.
    pub(crate) fn tls(&self) -> Result<ServerOptions, SettingsError> {
        if self.tls_min_version == Some(MinVersion::Tls13) && !self.tls_cipher_suites.is_empty() {
            return Err(SettingsError::SuitesOfTls13);
        }
        let http1_only = self.tls_min_version.is_none() && self.enable_http2 == Some(false);
        let alpn: &[&[u8]] = if http1_only { &[b"http/1.1"] } else { &[b"h2", b"http/1.1"] };
        Ok(ServerOptions {
            min_version: self.tls_min_version.unwrap_or_default(),
            cipher_suites: self.tls_cipher_suites.clone(),
            ..ServerOptions::with_alpn(alpn)
        })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            webhook_host: None,
            webhook_port: 9443,
            webhook_cert_dir: None,
            webhook_names: Vec::new(),
            tls_min_version: None,
            tls_cipher_suites: Vec::new(),
            enable_http2: None,
            limits: Limits::default(),
        }
    }
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            admission_body: 8 << 20,
            conversion_body: 48 << 20,
            bodies: 96 << 20,
            heads: 16 << 20,
            connections: 1024,
            patience: Duration::from_secs(30),
            idle: Duration::from_secs(100),
            drain: Duration::from_secs(10),
            reload: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http2_can_be_turned_off_unless_a_version_is_asked_for() {
        let alpn = |settings: Settings| settings.tls().unwrap().alpn.len();
        assert_eq!(alpn(Settings::default()), 2);
        assert_eq!(alpn(Settings { enable_http2: Some(false), ..Settings::default() }), 1);
        let tls_min_version = Some(MinVersion::Tls12);
        assert_eq!(alpn(Settings { enable_http2: Some(false), tls_min_version, ..Settings::default() }), 2);
    }

    #[test]
    fn suites_with_tls_1_3_are_refused() {
        let settings = Settings {
            tls_min_version: Some(MinVersion::Tls13),
            tls_cipher_suites: vec!["TLS_AES_128_GCM_SHA256".parse().unwrap()],
            ..Settings::default()
        };
        assert_eq!(settings.tls(), Err(SettingsError::SuitesOfTls13));
    }
}
