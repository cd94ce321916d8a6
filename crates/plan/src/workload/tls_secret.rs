//! The secret with the certificate of the model server and the scheduler.
//!
//! Keys need randomness, so planning only says which certificate is wanted and why. The controller issues it and fills it in.

use std::{collections::BTreeSet, net::IpAddr};

use k8s_openapi::{
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::{SignedDuration, Timestamp},
};
use longboat_api::labels::{COMPONENT, are_of, component, value};
use longboat_key::Name;

use super::certificate::{Certificate, is_private_key};
use crate::{
    certificate_request::{CertificateRequest, PRIVATE_KEY, cluster_ips},
    context::Context,
    labels, names,
    scheduler::{service::dns_name, tokenizer},
};

const DAYS_PER_YEAR: i64 = 365;
/// How long an issued certificate is valid.
const VALID_DAYS: u32 = 12 * 365;
/// The age at which a certificate is replaced: two years before a decade is over.
const REPLACE_AFTER: SignedDuration = SignedDuration::from_hours(8 * DAYS_PER_YEAR * 24);

/// Why a live certificate must be replaced.
struct Objection {
    reason: String,
    keeps_key: bool,
}

/// Returns the secret, and a request for its content unless the live content is still valid.
pub(super) fn plan(context: &Context) -> (Secret, Option<CertificateRequest>) {
    let name = names::tls_secret(context.name);
    let live = context.snapshot.secrets.get(context.namespace, Name(&name));
    let mut metadata = context.child_metadata(name.clone(), labels::of(component::WORKLOAD, context.name));
    let expiration = &context.snapshot.platform.expiration_annotations;
    let (dns_names, addresses) = (dns_names(context), addresses(context));
    let objection = match live {
        None => Some(Objection { reason: "there is no certificate yet".to_owned(), keeps_key: false }),
        Some(live) => objection(live, expiration, &dns_names, &addresses, context.snapshot.now),
    };

    let mut data = None;
    let mut annotations = labels::Map::new();
    if let (Some(live), None) = (live, &objection) {
        data.clone_from(&live.data);
        for key in expiration {
            if let Some(value) = live.metadata.annotations.as_ref().and_then(|all| all.get(key)) {
                annotations.insert(key.clone(), value.clone());
            }
        }
    } else if let Some(key) = expiration.first() {
        let at = context.snapshot.now.checked_add(REPLACE_AFTER).unwrap_or(Timestamp::MAX);
        annotations.insert(key.clone(), at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    }
    metadata.annotations = Some(annotations);
    let live_key = live.and_then(|live| live.data.as_ref()?.get(PRIVATE_KEY));
    let request = objection.map(|Objection { reason, keeps_key }| CertificateRequest {
        secret: name,
        organization: "Kserve Self Signed",
        dns_names,
        addresses,
        valid_days: VALID_DAYS,
        reason,
        key: live_key.filter(|_| keeps_key).cloned(),
    });
    let secret = Secret { metadata, type_: Some("kubernetes.io/tls".into()), data, ..Secret::default() };
    (secret, request)
}

fn objection(
    live: &Secret,
    expiration: &[String],
    dns_names: &[String],
    addresses: &[IpAddr],
    now: Timestamp,
) -> Option<Objection> {
    let renew = |reason: String| Some(Objection { reason, keeps_key: false });
    let annotations = live.metadata.annotations.as_ref();
    // An annotation that does not parse says nothing. Then the dates of the certificate decide.
    let expires =
        expiration.iter().find_map(|key| annotations?.get(key)).and_then(|at| at.parse::<Timestamp>().ok());
    if expires.is_some_and(|at| at <= now) {
        return renew("it is due for replacement".into());
    }
    let entry = |key: &str| live.data.as_ref().and_then(|data| data.get(key)).map(|bytes| bytes.0.as_slice());
    if !entry(PRIVATE_KEY).is_some_and(is_private_key) {
        return renew("its tls.key does not parse".into());
    }
    let Some(certificate) = entry("tls.crt").and_then(Certificate::parse) else {
        return renew("its tls.crt does not parse".into());
    };
    if let Some(reason) = certificate.not_valid(now) {
        return renew(reason);
    }
    let reason = certificate.uncovered(dns_names, addresses)?;
    Some(Objection { reason, keeps_key: true })
}

fn dns_names(context: &Context) -> Vec<String> {
    let mut names = BTreeSet::from(["localhost".to_owned()]);
    let tokenizer = tokenizer::is_wanted(context).then(|| names::tokenizer(context.name));
    let services = [Some(names::workload_service(context.name)), dns_name(context), tokenizer];
    for service in services.into_iter().flatten() {
        let short = format!("{service}.{}.svc", context.namespace);
        names.insert(format!("{short}.{}", context.snapshot.cluster_domain));
        names.insert(short);
    }
    names.into_iter().collect()
}

/// Loopback, and the addresses of the service's Services and pods except the scheduler's pods. Pending pods have no address
/// and headless Services have `None`, so the certificate cannot contain them.
fn addresses(context: &Context) -> Vec<IpAddr> {
    let snapshot = context.snapshot;
    let ours = |metadata: &ObjectMeta| {
        are_of(metadata, context.name) && value(metadata, COMPONENT) != Some(component::SCHEDULER)
    };
    let pods = snapshot.pods.in_namespace(context.namespace).filter(|pod| ours(&pod.metadata));
    let pod_ips = pods.filter_map(|pod| pod.status.as_ref()).flat_map(|status| {
        let several = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str());
        status.pod_ip.as_deref().into_iter().chain(several)
    });
    // Reads the service's own Services and those without a controller. The others are stored as text, and need not be
    // decoded.
    let services = snapshot
        .services
        .controlled(context.namespace, context.uid)
        .chain(snapshot.services.decoded_in_namespace(context.namespace))
        .filter(|service| ours(&service.metadata));
    let texts = std::iter::once("127.0.0.1").chain(pod_ips).chain(cluster_ips(services));
    texts.filter_map(|text| text.parse().ok()).collect::<BTreeSet<IpAddr>>().into_iter().collect()
}
