//! Apply: writes the planned children that differ from the live ones.

mod child;

use std::collections::BTreeSet;

use k8s_openapi::{
    Metadata,
    api::core::v1::{Secret, Service},
};
use longboat_api::labels::{self, COMPONENT};
use longboat_plan::{Applied, CertificateRequest, Child, Children, Planned, Problem, Snapshot, Wave, kinds};
use longboat_tls::{LeafRequest, self_signed, self_signed_with_key};
use serde::Serialize;
use tokio::sync::watch;

use self::child::ApplyRefusal;
use crate::{context::Context, error::ReconcileError, events::Subject, watch::kinds::WatchedKind};

/// The result of applying a plan.
pub(crate) struct Outcome {
    /// The children as the API server holds them.
    pub(crate) children: Children<Applied>,
    /// The first write that failed. The waves after it were not written.
    pub(crate) failure: Option<Failure>,
}

/// A write that failed.
pub(crate) struct Failure {
    /// What it means for the service.
    pub(crate) problem: Problem,
    /// Whether the failure may disappear as soon as the caches have caught up. Then it is not reported.
    pub(crate) transient: bool,
}

impl Failure {
    /// Why the reconcile is tried again. `reported` words a failure that lasts.
    pub(crate) fn error(&self, reported: impl FnOnce(String) -> String) -> ReconcileError {
        let message = self.problem.message.clone();
        if self.transient {
            ReconcileError::Conflict { what: message }
        } else {
            ReconcileError::Unfinished(reported(message))
        }
    }
}

/// Writes the children that differ from the objects in `seen`, on which the plan is based, and issues the requested
/// certificates.
///
/// With `refused`, which the API server said about one of the children, writes nothing.
///
/// Children that do not depend on each other are written concurrently. After a failure, no later wave begins. Services are
/// written before the certificate, which contains their addresses, and the certificate before the pods that mount it. Only
/// workloads whose pods run under an account with a role binding wait for the bindings, because an API server may be slow to
/// authorize them. Routes, which send traffic, come last.
pub(crate) async fn all(
    context: &Context,
    subject: &Subject,
    seen: &Snapshot,
    mut planned: Children<Planned>,
    certificates: Vec<CertificateRequest>,
    refused: Option<Problem>,
) -> Outcome {
    let bound = bound_accounts(&planned);
    let failure = refused.map(|problem| Failure { problem, transient: false });
    let mut writer = Writer { context, subject, seen, failure };
    let mut written = Children::default();

    let foundation = Box::pin(writer.write_wave(planned.take(Wave::Foundation), None)).await;
    writer.record(foundation, &mut written);
    if writer.failure.is_none() {
        writer.failure = issue(subject, certificates, &written.services, &mut planned.secrets).err();
    }
    let (report_bindings, bindings) = watch::channel(None);
    let (rights, secrets) = (planned.take(Wave::Binding), planned.take(Wave::Certificate));
    let workloads = planned.take(Wave::Workload);
    let binding = async {
        let written = Box::pin(writer.write_wave(rights, None)).await;
        report_bindings.send_replace(Some(written.failure.is_none()));
        written
    };
    let running = async {
        let secrets = Box::pin(writer.write_wave(secrets, None)).await;
        let gate = Gate { is_closed: secrets.failure.is_some(), bound: &bound, bindings };
        let workloads = Box::pin(writer.write_wave(workloads, Some(&gate))).await;
        (secrets, workloads)
    };
    let (bindings, (secrets, workloads)) = tokio::join!(binding, running);
    // If several of these fail, the first in this order is reported.
    for part in [secrets, bindings, workloads] {
        writer.record(part, &mut written);
    }
    for wave in [Wave::Scaling, Wave::Pool, Wave::Route] {
        let part = Box::pin(writer.write_wave(planned.take(wave), None)).await;
        writer.record(part, &mut written);
    }
    Outcome { children: written, failure: writer.failure }
}

/// Replaces children by newer versions from the caches: others may have changed them since they were written. For instance,
/// their controllers write their status.
pub(crate) fn refresh(context: &Context, children: &mut Children<Applied>) {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
            $(for child in &mut children.$field {
                if let Some(newer) = context.caches.$field.newer(child.metadata()) {
                    *child = newer.as_ref().clone();
                }
            })*
        };
    }
    kinds!(children each);
}

/// The accounts that are subjects of a planned binding.
fn bound_accounts(planned: &Children<Planned>) -> BTreeSet<String> {
    let roles = planned.role_bindings.iter().map(|binding| &binding.subjects);
    let cluster_roles = planned.cluster_role_bindings.iter().map(|binding| &binding.subjects);
    let subjects = roles.chain(cluster_roles).flatten().flatten();
    subjects.map(|subject| subject.name.clone()).collect()
}

/// Issues certificates and puts them into the planned Secrets. The certificates include the addresses of Services that were
/// just created, so that a new service needs only one certificate.
fn issue(
    subject: &Subject,
    certificates: Vec<CertificateRequest>,
    services: &[Service],
    secrets: &mut [Secret],
) -> Result<(), Failure> {
    for mut request in certificates {
        let Some(secret) = secrets.iter_mut().find(|secret| request.is_for(secret)) else { continue };
        request.add_addresses(services);
        let leaf = LeafRequest {
            common_name: request.organization.to_owned(),
            organization: request.organization.to_owned(),
            dns_names: request.dns_names.clone(),
            ips: request.addresses.clone(),
            days: request.valid_days,
            client_auth: false,
        };
        let live_key = request.key.as_ref().and_then(|key| std::str::from_utf8(&key.0).ok());
        // A key of another program may have an algorithm that ours cannot sign with.
        let kept = live_key.and_then(|key| self_signed_with_key(&leaf, key).ok());
        let pair = kept.map_or_else(|| self_signed(&leaf), Ok).map_err(|error| {
            let message = format!("failed to create self-signed TLS certificate: {error}");
            Failure { problem: Problem::certificates(message), transient: false }
        })?;
        tracing::info!(service = %subject.key, reason = request.reason, "Issued a certificate.");
        request.fill(secret, &pair.certificate_pem, &pair.key_pem);
    }
    Ok(())
}

/// The preconditions of writing workloads.
struct Gate<'a> {
    /// Whether an object that all pods need is missing, so that no workload is written.
    is_closed: bool,
    /// Accounts with a planned binding.
    bound: &'a BTreeSet<String>,
    /// Whether the bindings were written; `None` until they were tried.
    bindings: watch::Receiver<Option<bool>>,
}

impl Gate<'_> {
    /// Whether pods that run under these accounts have what they need. Waits until that is known.
    async fn lets_through(&self, accounts: Vec<&str>) -> bool {
        if self.is_closed {
            return false;
        }
        if !accounts.into_iter().any(|account| self.bound.contains(account)) {
            return true;
        }
        let mut bindings = self.bindings.clone();
        bindings.wait_for(Option::is_some).await.is_ok_and(|written| *written == Some(true))
    }
}

struct Writer<'a> {
    context: &'a Context,
    subject: &'a Subject,
    seen: &'a Snapshot,
    /// The failure of an earlier wave.
    failure: Option<Failure>,
}

/// Children as the API server holds them, and the first failure to write one.
#[derive(Default)]
struct WriteOutcome<C> {
    children: C,
    failure: Option<Failure>,
}

impl Writer<'_> {
    /// Writes the children of one wave, each kind beside the others. Those that run pods wait for the gate.
    async fn write_wave(
        &self,
        planned: Children<Planned>,
        gate: Option<&Gate<'_>>,
    ) -> WriteOutcome<Children<Applied>> {
        macro_rules! each {
            ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {{
                $(let $field = self.write_kind(planned.$field, gate);)*
                let ($($field,)*) = tokio::join!($($field,)*);
                let mut failure = None;
                $(failure = failure.or($field.failure);)*
                let children = Children { $($field: $field.children,)* ..Children::default() };
                WriteOutcome { children, failure }
            }};
        }
        kinds!(children each)
    }

    /// Writes the children of one kind in order, and stops at the first failure: if the model server's Deployment cannot be
    /// written, the picker's is not written either.
    async fn write_kind<K: Child + WatchedKind + Serialize>(
        &self,
        planned: Vec<K>,
        gate: Option<&Gate<'_>>,
    ) -> WriteOutcome<Vec<K>> {
        let mut written = WriteOutcome { children: Vec::with_capacity(planned.len()), failure: None };
        for child in planned {
            let reference = child.reference();
            let may_be_written = match gate {
                _ if self.failure.is_some() || written.failure.is_some() => false,
                Some(gate) => gate.lets_through(child.accounts()).await,
                None => true,
            };
            if !may_be_written {
                // Not written; the live object still counts for the status.
                let live = K::cache(&self.context.caches).get(&reference.key);
                written.children.extend(live.map(|live| live.as_ref().clone()));
                continue;
            }
            let component = labels::value(child.metadata(), COMPONENT).map(ToOwned::to_owned);
            match Box::pin(self.write_child(&reference, child)).await {
                Ok(child) => written.children.push(child),
                Err(ApplyRefusal { message, transient }) => {
                    let problem = Problem::of_child(&reference, component.as_deref(), message);
                    written.failure = Some(Failure { problem, transient });
                }
            }
        }
        written
    }

    fn record(&mut self, part: WriteOutcome<Children<Applied>>, written: &mut Children<Applied>) {
        self.failure = self.failure.take().or(part.failure);
        written.append(part.children);
    }
}
