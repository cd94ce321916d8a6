//! The request for a certificate, which the controller issues and fills into a planned secret.

use std::net::IpAddr;

use k8s_openapi::{
    ByteString,
    api::core::v1::{Secret, Service},
};

/// The private key in the Secret.
pub(crate) const PRIVATE_KEY: &str = "tls.key";

/// A certificate that the controller must issue before it can write the planned secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The name of the planned secret.
    pub secret: String,
    /// The organization of the subject. Also its common name, for issuers that need one.
    pub organization: &'static str,
    /// Names the certificate must cover, sorted.
    pub dns_names: Vec<String>,
    /// Addresses the certificate must cover, sorted.
    pub addresses: Vec<IpAddr>,
    /// For how many days from now it is valid.
    pub valid_days: u32,
    /// Why the live certificate must be replaced.
    pub reason: String,
    /// The live PKCS#8 key as PEM, if it stays. Pods get the new certificate at different times, and some servers only when
    /// they restart: with the same key, each trusts the others' certificate.
    pub key: Option<ByteString>,
}

// === impl CertificateRequest ===

impl CertificateRequest {
    /// Whether this planned secret gets the certificate.
    pub fn is_for(&self, secret: &Secret) -> bool {
        secret.metadata.name.as_deref() == Some(self.secret.as_str())
    }

    /// Adds the addresses of the service's own Services, which may have been created since it was planned.
    pub fn add_addresses(&mut self, services: &[Service]) {
        // A headless Service has the address `None`, which does not parse.
        self.addresses.extend(cluster_ips(services).filter_map(|text| text.parse::<IpAddr>().ok()));
        self.addresses.sort_unstable();
        self.addresses.dedup();
    }

    /// Puts issued PEM texts into the planned secret.
    pub fn fill(&self, secret: &mut Secret, certificate_pem: &str, key_pem: &str) {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        // The certificate signs itself, so it is also the CA that clients verify it by.
        let data = [("tls.crt", certificate_pem), ("ca.crt", certificate_pem), (PRIVATE_KEY, key_pem)];
        secret.data = Some(data.into_iter().map(|(key, text)| (key.to_owned(), bytes(text))).collect());
    }
}

/// The addresses of Services.
pub(crate) fn cluster_ips<'a>(
    services: impl IntoIterator<Item = &'a Service>,
) -> impl Iterator<Item = &'a str> {
    services.into_iter().filter_map(|service| service.spec.as_ref()).flat_map(|spec| {
        let several = spec.cluster_ips.iter().flatten().map(String::as_str);
        spec.cluster_ip.as_deref().into_iter().chain(several)
    })
}
