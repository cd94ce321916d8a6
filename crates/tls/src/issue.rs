//! Making keys and certificates: ECDSA P-256 throughout.
//!
//! The reference signs with RSA-4096, which costs it 1.35 CPU seconds a service; P-256 costs well under a millisecond
//! and every client of these endpoints accepts it.

use std::{net::IpAddr, time::Duration};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyUsagePurpose, SanType,
};

use crate::TlsError;

/// Clocks of two machines differ; a certificate that is valid from "now" is refused by the slower one.
const BACKDATE: Duration = Duration::from_mins(5);
const DAY: Duration = Duration::from_hours(24);

/// What a leaf certificate should say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeafRequest {
    /// Subject common name.
    pub common_name: String,
    /// Subject organisation; empty for none. kube-apiserver reads groups of a client certificate from it.
    pub organization: String,
    /// DNS subject alternative names.
    pub dns_names: Vec<String>,
    /// IP subject alternative names.
    pub ips: Vec<IpAddr>,
    /// Days until it expires.
    pub days: u32,
    /// Whether the certificate may authenticate a client, besides a server.
    pub client_auth: bool,
}

/// A certificate (chain) and its private key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The leaf, followed by its issuer where there is one.
    pub certificate_pem: String,
    /// PKCS#8 private key.
    pub key_pem: String,
}

// The key must never reach a log through `{:?}`.
impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair").field("certificate_pem", &self.certificate_pem).finish_non_exhaustive()
    }
}

/// An own certificate authority. The key stays in memory unless [`CertificateAuthority::key_pem`] is asked for.
pub struct CertificateAuthority {
    issuer: CertifiedIssuer<'static, rcgen::KeyPair>,
}

// === impl CertificateAuthority ===

impl CertificateAuthority {
    /// Makes a CA valid for ten years.
    pub fn new(common_name: &str) -> Result<Self, TlsError> {
        let fail = |source| TlsError::Issue { subject: common_name.to_owned(), source };
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(common_name, "");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        validity(&mut params, 3650);
        let key = rcgen::KeyPair::generate().map_err(fail)?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(fail)?;
        Ok(Self { issuer })
    }

    /// The CA certificate as PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The CA's private key as PEM.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Issues a leaf; its PEM holds the leaf and this CA.
    pub fn issue(&self, request: &LeafRequest) -> Result<KeyPair, TlsError> {
        let fail = |source| TlsError::Issue { subject: request.common_name.clone(), source };
        let params = leaf_params(request).map_err(fail)?;
        let key = rcgen::KeyPair::generate().map_err(fail)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(fail)?;
        Ok(KeyPair { certificate_pem: certificate.pem() + &self.pem(), key_pem: key.serialize_pem() })
    }
}

/// Makes a certificate that is its own issuer.
pub fn self_signed(request: &LeafRequest) -> Result<KeyPair, TlsError> {
    let fail = |source| TlsError::Issue { subject: request.common_name.clone(), source };
    let params = leaf_params(request).map_err(fail)?;
    let key = rcgen::KeyPair::generate().map_err(fail)?;
    let certificate = params.self_signed(&key).map_err(fail)?;
    Ok(KeyPair { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
}

fn leaf_params(request: &LeafRequest) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(request.dns_names.clone())?;
    params.subject_alt_names.extend(request.ips.iter().copied().map(SanType::IpAddress));
    params.distinguished_name = subject(&request.common_name, &request.organization);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    if request.client_auth {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
    }
    validity(&mut params, request.days);
    Ok(params)
}

fn subject(common_name: &str, organization: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if !common_name.is_empty() {
        name.push(DnType::CommonName, common_name);
    }
    if !organization.is_empty() {
        name.push(DnType::OrganizationName, organization);
    }
    name
}

fn validity(params: &mut CertificateParams, days: u32) {
    let now = std::time::SystemTime::now();
    params.not_before = (now - BACKDATE).into();
    params.not_after = (now + DAY * days).into();
}
