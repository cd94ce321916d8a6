//! BackendTLSPolicies: which Services are reached with TLS, and how their certificates are checked. Pure functions.

use std::{collections::BTreeSet, sync::Arc};

use longboat_api::foreign::{backendtlspolicy::BackendTLSPolicy, gateway::Gateway};
use longboat_key::{Key, Name, Namespace};
use longboat_tls::{KeyPair, PeerName};

use crate::{
    RoutingInputs, attach, certificates, grants::Referrer, observed::has_key, problem::Problem, route,
};

/// The most ConfigMaps that the policies of a Gateway may name. Each is a watch with a connection of its own, and every tenant may
/// write policies. One ConfigMap has room for many certificates.
const MAX_CONFIG_MAPS: usize = 128;

/// How to connect to a back end with TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TlsSettings {
    /// The CA certificates as PEM.
    pub(crate) ca_pem: String,
    /// The name that the client asks for.
    pub(crate) server_name: String,
    /// The names of which the certificate must have one; empty for the name above.
    pub(crate) names: Vec<PeerName>,
    /// The certificate of the Gateway, if it has one.
    pub(crate) client: Option<Arc<KeyPair>>,
}

/// Why a policy is not in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PolicyProblem {
    /// Why it is not accepted.
    pub(crate) refused: Problem,
    /// Why its references cannot be resolved, if that is the reason.
    pub(crate) unresolved: Option<Problem>,
}

/// What the policies of a Gateway refer to.
#[derive(Debug, Default)]
pub(crate) struct PolicyReferences {
    pub(crate) config_maps: BTreeSet<Key>,
    /// The policies whose ConfigMaps are too many, and not read.
    pub(crate) refused: BTreeSet<Key>,
}

/// Returns what the policies refer to whose targets are back ends of a Gateway. Older policies come first.
pub(crate) fn references(observed: &RoutingInputs, gateway: &Gateway) -> PolicyReferences {
    let mut all = PolicyReferences::default();
    // Most clusters have none, and this looks at each route.
    if observed.tls_policies.is_empty() {
        return all;
    }
    let routes = attach::routes_of(observed, gateway);
    let services: BTreeSet<_> =
        routes.iter().flat_map(|route| route::service_keys(observed, route)).collect();
    let mut policies: Vec<_> = observed
        .tls_policies
        .iter()
        .filter(|policy| targets(policy).any(|service| services.contains(&service)))
        .filter(|policy| conflict(observed, policy).is_none())
        .collect();
    policies.sort_by_cached_key(|policy| age(policy));
    for policy in policies {
        let references = policy.spec.validation.ca_certificate_refs.iter().filter(|reference| {
            (reference.group.as_deref(), reference.kind.as_deref()) == (Some(""), Some("ConfigMap"))
        });
        let namespace = Namespace::of(&policy.metadata);
        let new: BTreeSet<_> = references
            .map(|reference| Key::new(namespace, Name(&reference.name)))
            .filter(|map| !all.config_maps.contains(map))
            .collect();
        if all.config_maps.len() + new.len() > MAX_CONFIG_MAPS {
            all.refused.insert(Key::of(policy.as_ref()));
        } else {
            all.config_maps.extend(new);
        }
    }
    all
}

/// Says that the ConfigMaps of a policy are too many for a Gateway.
pub(crate) fn too_many(gateway: &Key) -> PolicyProblem {
    let message = format!(
        "with its caCertificateRefs, the BackendTLSPolicies of routes of Gateway {gateway} would name more than {MAX_CONFIG_MAPS} \
         ConfigMaps, and older ones come first: name a ConfigMap that another policy has, or put several certificates into one"
    );
    PolicyProblem { refused: Problem { reason: "Invalid", message }, unresolved: None }
}

/// The order of precedence among policies for the same target: the oldest first, then by name.
fn age(policy: &BackendTLSPolicy) -> impl Ord + use<> {
    (policy.metadata.creation_timestamp.as_ref().map(|time| time.0), Key::of(policy))
}

/// Returns the Services that are targets of a policy.
pub(crate) fn targets(policy: &BackendTLSPolicy) -> impl Iterator<Item = Key> {
    sections(policy).map(|(_, service, _)| service)
}

/// Returns the targets of a policy with their places in the list.
fn sections(policy: &BackendTLSPolicy) -> impl Iterator<Item = (usize, Key, Option<&str>)> {
    let all = policy.spec.target_refs.iter().enumerate();
    let services = all
        .filter(|(_, target)| (target.object.group.as_str(), target.object.kind.as_str()) == ("", "Service"));
    services.map(|(at, target)| {
        let service = Key::new(Namespace::of(&policy.metadata), Name(&target.object.name));
        (at, service, target.section_name.as_deref())
    })
}

/// Returns the policy for a port of a Service: one for this port before one for all ports.
pub(crate) fn policy<'a>(
    observed: &'a RoutingInputs,
    service: &Key,
    port: Option<&str>,
) -> Option<&'a Arc<BackendTLSPolicy>> {
    let of = |section: Option<&str>| {
        let names = |policy: &&Arc<BackendTLSPolicy>| {
            sections(policy).any(|(_, target, of_it)| target == *service && of_it == section)
        };
        observed.tls_policies.iter().filter(names).min_by_key(|policy| age(policy))
    };
    port.and_then(|port| of(Some(port))).or_else(|| of(None))
}

/// Returns how to connect to a port of a Service, or `None` for connections without TLS.
pub(crate) fn settings(
    observed: &RoutingInputs,
    service: &Key,
    port: Option<&str>,
) -> Option<Result<Arc<TlsSettings>, String>> {
    let policy = policy(observed, service, port)?;
    let error = |problem: PolicyProblem| {
        format!("BackendTLSPolicy {}: {}", Key::of(policy.as_ref()), problem.refused.message)
    };
    Some(compiled(observed, policy).map(Arc::new).map_err(error))
}

/// Returns why a policy is not in force for all its targets.
pub(crate) fn problem(observed: &RoutingInputs, policy: &BackendTLSPolicy) -> Option<PolicyProblem> {
    let refused = match compiled(observed, policy) {
        Err(problem) => return Some(problem),
        Ok(_) => sections(policy).find_map(|target| missing_port(observed, target))?,
    };
    Some(PolicyProblem { refused, unresolved: None })
}

/// Returns why a target with the name of a port is none. A Service that does not exist yet may get the port.
fn missing_port(
    observed: &RoutingInputs,
    (at, service, section): (usize, Key, Option<&str>),
) -> Option<Problem> {
    let section = section?;
    let object = observed.services.iter().find(|object| has_key(&object.metadata, &service))?;
    let ports = object.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let names: Vec<_> = ports.iter().filter_map(|port| port.name.as_deref()).collect();
    if names.contains(&section) {
        return None;
    }
    let known = if names.is_empty() { "no port has a name".to_owned() } else { names.join(", ") };
    let message = format!(
        "spec.targetRefs[{at}].sectionName `{section}` is no name of a port of Service {service} ({known}): \
         name a port, or remove the field for all ports"
    );
    Some(Problem { reason: "TargetNotFound", message })
}

/// Reads a policy.
pub(crate) fn compiled(
    observed: &RoutingInputs,
    policy: &BackendTLSPolicy,
) -> Result<TlsSettings, PolicyProblem> {
    if let Some(other) = conflict(observed, policy) {
        let message = format!("BackendTLSPolicy {other}, which is older, has the same target");
        return Err(PolicyProblem { refused: Problem { reason: "Conflicted", message }, unresolved: None });
    }
    let validation = &policy.spec.validation;
    if validation.well_known_ca_certificates.is_some() {
        let message =
            "wellKnownCACertificates is not supported by this gateway: use caCertificateRefs".to_owned();
        return Err(PolicyProblem { refused: Problem { reason: "Invalid", message }, unresolved: None });
    }
    let (mut ca_pem, mut unresolved) = (String::new(), None);
    let referrer = Referrer { kind: "BackendTLSPolicy", namespace: Namespace::of(&policy.metadata) };
    for reference in &validation.ca_certificate_refs {
        match certificates::authority(observed, referrer, reference) {
            Ok(pem) => ca_pem.push_str(&pem),
            Err(Problem { reason: certificates::INVALID_CA_KIND, message }) => {
                unresolved = unresolved.or(Some(Problem { reason: "InvalidKind", message }));
            }
            Err(problem) => unresolved = unresolved.or(Some(problem)),
        }
    }
    // One CA that can be read is not enough: which one a person relies on is not known.
    if let Some(problem) = unresolved {
        let refused = Problem { reason: "NoValidCACertificate", message: problem.message.clone() };
        return Err(PolicyProblem { refused, unresolved: Some(problem) });
    }
    let name = |name: &longboat_api::foreign::backendtlspolicy::SubjectAltName| match name.type_.as_str() {
        "URI" => PeerName::Uri(name.uri.clone()),
        _ => PeerName::Dns(name.hostname.clone()),
    };
    let names = validation.subject_alt_names.iter().map(name).collect();
    Ok(TlsSettings { ca_pem, server_name: validation.hostname.clone(), names, client: None })
}

/// Returns an older policy with the same target.
fn conflict(observed: &RoutingInputs, policy: &BackendTLSPolicy) -> Option<Key> {
    let own = age(policy);
    let older = |other: &&Arc<BackendTLSPolicy>| {
        other.metadata.namespace == policy.metadata.namespace
            && age(other) < own
            && other.spec.target_refs.iter().any(|target| policy.spec.target_refs.contains(target))
    };
    observed.tls_policies.iter().find(older).map(|other| Key::of(other.as_ref()))
}
