//! Creates keys and certificates, always with ECDSA P-256.
//!
//! KServe signs with RSA-4096, which costs 1.35 CPU seconds per service. P-256 costs well under a millisecond, and every
//! client of these endpoints accepts it.

use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, PublicKeyData, SanType,
};

use crate::{TlsError, inspect};

/// How far certificates are backdated: the clocks of two machines differ, and the slower one refuses a certificate that is
/// valid from "now".
const BACKDATE: Duration = Duration::from_mins(5);
const DAY: Duration = Duration::from_hours(24);

/// The contents of a leaf certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeafRequest {
    /// Subject common name.
    pub common_name: String,
    /// Subject organization; empty for none. kube-apiserver reads the groups of a client certificate from it.
    pub organization: String,
    /// DNS subject alternative names.
    pub dns_names: Vec<String>,
    /// IP subject alternative names.
    pub ips: Vec<IpAddr>,
    /// Days until the certificate expires.
    pub days: u32,
    /// Whether the certificate may authenticate a client, besides a server.
    pub client_auth: bool,
}

/// The period in which a certificate is valid, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first moment.
    pub not_before: SystemTime,
    /// The last moment.
    pub not_after: SystemTime,
}

/// A certificate (chain) and its private key, both PEM.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyPair {
    /// The leaf, followed by its issuer if there is one.
    pub certificate_pem: String,
    /// PKCS#8 private key.
    pub key_pem: String,
}

// Debug output must never contain the key.
impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair").field("certificate_pem", &self.certificate_pem).finish_non_exhaustive()
    }
}

/// A certificate authority. The key stays in memory unless [`CertificateAuthority::key_pem`] returns it.
pub struct CertificateAuthority {
    pem: String,
    issuer: Issuer<'static, rcgen::KeyPair>,
}

// === impl Validity ===

impl Validity {
    /// Returns a period of `lifetime` from `now`. It starts a little earlier, because the clocks of two machines differ.
    pub fn starting(now: SystemTime, lifetime: Duration) -> Self {
        Self { not_before: now - BACKDATE, not_after: now + lifetime }
    }
}

// === impl CertificateAuthority ===

impl CertificateAuthority {
    /// Creates a CA that is valid for ten years.
    pub fn new(common_name: &str) -> Result<Self, TlsError> {
        Self::valid(common_name, Validity::starting(SystemTime::now(), DAY * 3650))
    }

    /// Creates a CA with the given validity.
    pub fn valid(common_name: &str, validity: Validity) -> Result<Self, TlsError> {
        let fail = |source| TlsError::Issue { subject: common_name.to_owned(), source };
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(common_name, "");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = validity.not_before.into();
        params.not_after = validity.not_after.into();
        let key = rcgen::KeyPair::generate().map_err(fail)?;
        let certificate = params.self_signed(&key).map_err(fail)?;
        Ok(Self { pem: certificate.pem(), issuer: Issuer::new(params, key) })
    }

    /// Loads a stored CA: its certificate, the first in `pem`, and its PKCS#8 key.
    ///
    /// # Errors
    ///
    /// If either cannot be read, if the certificate does not belong to a CA, or if the key does not belong to the
    /// certificate.
    pub fn load(pem: &str, key_pem: &str) -> Result<Self, TlsError> {
        let unusable = |what| TlsError::Pem { what };
        let first = inspect::certificates(pem)?.into_iter().next().ok_or(unusable("certificate"))?;
        let key = rcgen::KeyPair::from_pem(key_pem).map_err(|_| unusable("private key"))?;
        if !first.is_ca {
            return Err(unusable("CA certificate"));
        }
        if first.public_key != key.subject_public_key_info() {
            return Err(TlsError::KeyMismatch);
        }
        let issuer = Issuer::from_ca_cert_pem(&first.pem, key).map_err(|_| unusable("certificate"))?;
        Ok(Self { pem: first.pem, issuer })
    }

    /// Returns the CA certificate as PEM.
    pub fn pem(&self) -> String {
        self.pem.clone()
    }

    /// Returns the CA's private key as PEM.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Issues a leaf certificate. Its PEM contains the leaf and this CA.
    pub fn issue(&self, request: &LeafRequest) -> Result<KeyPair, TlsError> {
        self.issue_valid(request, Validity::starting(SystemTime::now(), DAY * request.days))
    }

    /// Issues a leaf certificate with the given validity instead of the request's days. Its PEM contains the leaf and this
    /// CA.
    pub fn issue_valid(&self, request: &LeafRequest, validity: Validity) -> Result<KeyPair, TlsError> {
        let fail = |source| TlsError::Issue { subject: request.common_name.clone(), source };
        let params = leaf_params(request, validity).map_err(fail)?;
        let key = rcgen::KeyPair::generate().map_err(fail)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(fail)?;
        Ok(KeyPair { certificate_pem: certificate.pem() + &self.pem, key_pem: key.serialize_pem() })
    }
}

/// Creates a self-signed certificate with a key of its own.
pub fn self_signed(request: &LeafRequest) -> Result<KeyPair, TlsError> {
    let fail = |source| TlsError::Issue { subject: request.common_name.clone(), source };
    sign_self(request, &rcgen::KeyPair::generate().map_err(fail)?)
}

/// Creates a self-signed certificate with this PKCS#8 key. Who trusts another certificate of the same subject and key, trusts
/// this one, too.
pub fn self_signed_with_key(request: &LeafRequest, key_pem: &str) -> Result<KeyPair, TlsError> {
    let key = rcgen::KeyPair::from_pem(key_pem).map_err(|_| TlsError::Pem { what: "private key" })?;
    sign_self(request, &key)
}

fn sign_self(request: &LeafRequest, key: &rcgen::KeyPair) -> Result<KeyPair, TlsError> {
    let fail = |source| TlsError::Issue { subject: request.common_name.clone(), source };
    let validity = Validity::starting(SystemTime::now(), DAY * request.days);
    let params = leaf_params(request, validity).map_err(fail)?;
    let certificate = params.self_signed(key).map_err(fail)?;
    Ok(KeyPair { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
}

fn leaf_params(request: &LeafRequest, validity: Validity) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(request.dns_names.clone())?;
    params.subject_alt_names.extend(request.ips.iter().copied().map(SanType::IpAddress));
    params.distinguished_name = subject(&request.common_name, &request.organization);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    if request.client_auth {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
    }
    params.not_before = validity.not_before.into();
    params.not_after = validity.not_after.into();
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
