//! The controller's own CA: its state, and when its certificates are rotated.
//!
//! Pure, except that it generates keys. The state is the CA that signs, the CA that will sign next, and the bundle that API
//! servers trust. Every replica issues its own leaf certificate; replicas share only the CA.
//!
//! A new CA is in the bundle long before it signs, and the old one stays in the bundle until it expires. So an API server
//! never meets a certificate that it does not trust yet, or no longer trusts.

use std::{
    collections::BTreeMap,
    ops::Range,
    time::{Duration, SystemTime},
};

use k8s_openapi::ByteString;
use longboat_api::names::WEBHOOK_CA_BUNDLE;
use longboat_tls::{
    CertificateAuthority, CertificateInfo, KeyPair, LeafRequest, TlsError, Validity, certificates,
};

/// How long certificates are valid, and when they are replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    /// Validity of a CA.
    pub(crate) ca: Duration,
    /// Remaining validity of a CA at which the next CA joins the bundle. Longer than `overlap` and `leaf` together, so that
    /// no leaf outlives the CA that signed it.
    pub(crate) ca_rest: Duration,
    /// Time from when a CA joins the bundle to its first signature.
    pub(crate) overlap: Duration,
    /// Validity of a leaf certificate.
    pub(crate) leaf: Duration,
    /// Remaining validity of a leaf at which it is replaced.
    pub(crate) leaf_rest: Duration,
}

/// The state of the controller's own CA.
pub(crate) struct Authority {
    signing: CertificateAuthority,
    /// The next CA: in the bundle, and signing after the overlap.
    next: Option<CertificateAuthority>,
    /// Certificates that API servers trust, newest first.
    trusted: Vec<CertificateInfo>,
}

/// Why the stored CA cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidCa {
    /// A key of the Secret is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A key of the Secret is not UTF-8.
    #[error("`{0}` is not PEM text")]
    NotText(&'static str),
    /// A certificate or private key is invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Keys of the Secret's data. The first two are required by its type.
const SIGNING: (&str, &str) = ("tls.crt", "tls.key");
const NEXT: (&str, &str) = ("next.crt", "next.key");

const DAY: Duration = Duration::from_hours(24);

// === impl Lifetimes ===

impl Default for Lifetimes {
    fn default() -> Self {
        Self { ca: DAY * 3650, ca_rest: DAY * 365, overlap: DAY, leaf: DAY * 90, leaf_rest: DAY * 30 }
    }
}

// === impl Authority ===

impl Authority {
    /// A new CA.
    pub(crate) fn new(now: SystemTime, lifetimes: &Lifetimes) -> Result<Self, TlsError> {
        let signing = certificate_authority(now, lifetimes)?;
        let trusted = certificates(&signing.pem())?;
        Ok(Self { signing, next: None, trusted })
    }

    /// Reads the state from a Secret's data.
    pub(crate) fn read(data: &BTreeMap<String, ByteString>) -> Result<Self, InvalidCa> {
        let text = |key: &'static str| -> Result<&str, InvalidCa> {
            let bytes = data.get(key).ok_or(InvalidCa::Missing(key))?;
            std::str::from_utf8(&bytes.0).map_err(|_| InvalidCa::NotText(key))
        };
        let signing = CertificateAuthority::load(text(SIGNING.0)?, text(SIGNING.1)?)?;
        let next = match data.get(NEXT.0) {
            Some(_) => Some(CertificateAuthority::load(text(NEXT.0)?, text(NEXT.1)?)?),
            None => None,
        };
        let mut trusted = certificates(text(WEBHOOK_CA_BUNDLE)?)?;
        for own in next.iter().chain([&signing]) {
            let own = certificates(&own.pem())?;
            // An edited bundle that lacks the signing CA would lock API servers out, so the CA is added again.
            trusted.splice(0..0, own.into_iter().filter(|own| !trusted.contains(own)).collect::<Vec<_>>());
        }
        Ok(Self { signing, next, trusted })
    }

    /// The state as a Secret's data.
    pub(crate) fn data(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::new();
        let mut put = |key: &str, text: String| data.insert(key.to_owned(), ByteString(text.into_bytes()));
        put(SIGNING.0, self.signing.pem());
        put(SIGNING.1, self.signing.key_pem());
        put(WEBHOOK_CA_BUNDLE, self.bundle());
        if let Some(next) = &self.next {
            put(NEXT.0, next.pem());
            put(NEXT.1, next.key_pem());
        }
        data
    }

    /// The bundle that API servers trust, as PEM.
    pub(crate) fn bundle(&self) -> String {
        self.trusted.iter().map(|certificate| certificate.pem.as_str()).collect()
    }

    /// The CA that signs, as PEM.
    pub(crate) fn signing(&self) -> String {
        self.signing.pem()
    }

    /// Rotates what is due. Returns whether anything changed.
    pub(crate) fn advance(&mut self, now: SystemTime, lifetimes: &Lifetimes) -> Result<bool, TlsError> {
        // A clock that was in the future for a while has made certificates that nobody takes for years.
        if self.validity(&self.signing)?.not_before > now {
            *self = Self::new(now, lifetimes)?;
            return Ok(true);
        }
        let before = self.trusted.len();
        self.trusted.retain(|certificate| {
            (certificate.validity.not_before..certificate.validity.not_after).contains(&now)
        });
        let mut changed = self.trusted.len() != before;
        if let Some(next) = &self.next
            && self.validity(next)?.not_before > now
        {
            self.next = None;
            changed = true;
        }
        if self.next.is_none() && now >= self.validity(&self.signing)?.not_after - lifetimes.ca_rest {
            let next = certificate_authority(now, lifetimes)?;
            self.trusted.splice(0..0, certificates(&next.pem())?);
            self.next = Some(next);
            changed = true;
        }
        if let Some(next) = self.next.take() {
            // An expired CA must not sign, so the next one signs even if the overlap is not over.
            let expired = now >= self.validity(&self.signing)?.not_after;
            if expired || now >= self.validity(&next)?.not_before + lifetimes.overlap {
                self.signing = next;
                changed = true;
            } else {
                self.next = Some(next);
            }
        }
        Ok(changed)
    }

    /// When the next rotation is due.
    pub(crate) fn due(&self, lifetimes: &Lifetimes) -> Result<SystemTime, TlsError> {
        let step = match &self.next {
            Some(next) => self.validity(next)?.not_before + lifetimes.overlap,
            None => self.validity(&self.signing)?.not_after - lifetimes.ca_rest,
        };
        let expiry = self.trusted.iter().map(|certificate| certificate.validity.not_after).min();
        Ok(expiry.map_or(step, |expiry| step.min(expiry)))
    }

    /// Issues a leaf certificate and returns it with the time in which it is served.
    pub(crate) fn leaf(
        &self,
        names: &LeafRequest,
        now: SystemTime,
        lifetimes: &Lifetimes,
    ) -> Result<(KeyPair, Range<SystemTime>), TlsError> {
        let mut validity = Validity::starting(now, lifetimes.leaf);
        validity.not_after = validity.not_after.min(self.validity(&self.signing)?.not_after);
        let pair = self.signing.issue_valid(names, validity)?;
        Ok((pair, validity.not_before..validity.not_after - lifetimes.leaf_rest))
    }

    fn validity(&self, authority: &CertificateAuthority) -> Result<Validity, TlsError> {
        let pem = authority.pem();
        match self.trusted.iter().find(|certificate| certificate.pem == pem) {
            Some(known) => Ok(known.validity),
            None => Ok(certificates(&pem)?.first().ok_or(TlsError::Pem { what: "certificate" })?.validity),
        }
    }
}

fn certificate_authority(now: SystemTime, lifetimes: &Lifetimes) -> Result<CertificateAuthority, TlsError> {
    CertificateAuthority::valid("llmisvc-webhook-ca", Validity::starting(now, lifetimes.ca))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * 20_000
    }

    fn kept(authority: &Authority) -> Authority {
        Authority::read(&authority.data()).unwrap()
    }

    #[test]
    fn what_is_kept_comes_back() {
        let lifetimes = Lifetimes::default();
        let mut authority = Authority::new(start(), &lifetimes).unwrap();
        assert_eq!(kept(&authority).data(), authority.data());
        assert!(authority.advance(start() + DAY * 3300, &lifetimes).unwrap());
        assert_eq!(authority.data().len(), 5, "the next CA is kept too");
        assert_eq!(kept(&authority).data(), authority.data());
        assert_eq!(kept(&authority).bundle(), authority.bundle());
    }

    #[test]
    fn a_young_ca_is_left_alone() {
        let lifetimes = Lifetimes::default();
        let mut authority = Authority::new(start(), &lifetimes).unwrap();
        let before = authority.data();
        assert!(!authority.advance(start() + DAY * 3000, &lifetimes).unwrap());
        assert_eq!(authority.data(), before);
    }

    #[test]
    fn a_new_ca_is_trusted_before_it_signs_and_the_old_one_until_it_expires() {
        let lifetimes = Lifetimes::default();
        let mut authority = Authority::new(start(), &lifetimes).unwrap();
        let old = authority.signing();

        let announced = authority.due(&lifetimes).unwrap();
        assert_eq!(announced, start() + DAY * (3650 - 365));
        assert!(authority.advance(announced, &lifetimes).unwrap());
        assert_eq!(authority.signing(), old);
        assert_eq!(certificates(&authority.bundle()).unwrap().len(), 2);
        assert!(!authority.advance(announced + DAY / 2, &lifetimes).unwrap());

        let signing = authority.due(&lifetimes).unwrap();
        assert!(signing > announced && signing <= announced + DAY);
        assert!(authority.advance(signing, &lifetimes).unwrap());
        let new = authority.signing();
        assert_ne!(new, old);
        assert_eq!(authority.bundle(), new.clone() + &old);
        assert_eq!(authority.data().len(), 3, "the old key is gone");

        let expired = authority.due(&lifetimes).unwrap();
        assert_eq!(expired, start() + DAY * 3650);
        assert!(authority.advance(expired, &lifetimes).unwrap());
        assert_eq!(authority.bundle(), new);
    }

    #[test]
    fn a_ca_that_expired_while_nobody_looked_is_replaced_at_once() {
        let lifetimes = Lifetimes::default();
        let mut authority = Authority::new(start(), &lifetimes).unwrap();
        let old = authority.signing();
        assert!(authority.advance(start() + DAY * 4000, &lifetimes).unwrap());
        assert_ne!(authority.signing(), old);
        assert_eq!(authority.bundle(), authority.signing());
    }

    #[test]
    fn what_a_clock_in_the_future_has_made_is_replaced_when_the_clock_is_right() {
        let lifetimes = Lifetimes::default();
        let (present, future) = (start(), start() + DAY * 7000);
        let mut authority = Authority::new(future, &lifetimes).unwrap();
        assert!(authority.advance(present, &lifetimes).unwrap());
        let valid = |authority: &Authority| {
            certificates(&authority.bundle()).unwrap().iter().all(|ca| ca.validity.not_before <= present)
        };
        assert!(valid(&authority) && authority.bundle() == authority.signing());

        // An hour in which the clock is so late that the next CA is made, but the present one still signs.
        let old = authority.signing();
        assert!(authority.advance(present + DAY * 3400, &lifetimes).unwrap());
        assert!(!valid(&authority));
        assert!(authority.advance(present, &lifetimes).unwrap());
        assert_eq!((authority.signing(), authority.bundle()), (old.clone(), old));
        assert_eq!(authority.due(&lifetimes).unwrap(), present + DAY * (3650 - 365));
        assert!(!authority.advance(present, &lifetimes).unwrap());
    }

    #[test]
    fn a_leaf_does_not_outlive_its_ca() {
        let lifetimes = Lifetimes { leaf: DAY * 9999, ..Lifetimes::default() };
        let authority = Authority::new(start(), &lifetimes).unwrap();
        let (pair, served) = authority.leaf(&LeafRequest::default(), start(), &lifetimes).unwrap();
        let chain = certificates(&pair.certificate_pem).unwrap();
        assert_eq!(chain[0].validity.not_after, chain[1].validity.not_after);
        assert!(chain[1].is_ca && !chain[0].is_ca);
        assert_eq!(served.end, start() + DAY * (3650 - 30));
    }

    #[test]
    fn a_key_of_another_ca_is_refused() {
        let lifetimes = Lifetimes::default();
        let mut data = Authority::new(start(), &lifetimes).unwrap().data();
        let other = Authority::new(start(), &lifetimes).unwrap().data();
        data.insert("tls.key".to_owned(), other["tls.key"].clone());
        assert!(Authority::read(&data).is_err());
        data.remove("tls.key");
        assert!(matches!(Authority::read(&data), Err(InvalidCa::Missing("tls.key"))));
    }

    #[test]
    fn a_signing_ca_that_was_taken_out_of_the_bundle_is_put_back() {
        let lifetimes = Lifetimes::default();
        let authority = Authority::new(start(), &lifetimes).unwrap();
        let mut data = authority.data();
        data.insert("ca.crt".to_owned(), ByteString(Vec::new()));
        assert_eq!(Authority::read(&data).unwrap().bundle(), authority.bundle());
    }
}
