//! A problem that stops planning or applying, and the condition that reports it.

use std::fmt::Display;

use longboat_api::{
    conditions::types,
    labels::component,
    reasons::condition::{
        HTTP_ROUTE_RECONCILE_ERROR, RECONCILE_CERTS_ERROR, RECONCILE_MULTI_NODE_WORKLOAD_ERROR,
        RECONCILE_SCALING_ERROR, RECONCILE_SINGLE_NODE_WORKLOAD_ERROR, RECONCILE_WORKLOAD_SERVICE_ERROR,
        ROUTING_PRECONDITION_NOT_MET, SCHEDULER_RECONCILE_ERROR,
    },
    v1alpha2::LLMInferenceServiceSpec,
};
use thiserror::Error;

use crate::{
    children::{ChildKind, ObjectRef},
    key::ObjectKey,
    workload::Half,
};

/// The part of a service that a problem belongs to. The parts after it are neither written nor removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Certificates, workloads, the workload Service.
    Workload,
    /// References, scheduler, route.
    Router,
}

/// Why planning or applying stopped short.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Problem {
    /// The part in which it occurred.
    pub phase: Phase,
    /// The condition that becomes False.
    pub condition: &'static str,
    /// The reason of the condition.
    pub reason: &'static str,
    /// The message of the condition.
    pub message: String,
}

/// A service that cannot be planned at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Children take the service's name and uid, which only a stored service has.
    #[error(
        "the service has no {0}: the controller can only reconcile services that the API server has stored"
    )]
    NotStored(&'static str),
    /// An object exists and cannot be decoded, so it is not known what is absent.
    #[error("cannot read {object}, so nothing is changed: {reason}")]
    Unreadable {
        /// The object.
        object: ObjectKey,
        /// The reason, and the position in the object's text.
        reason: String,
    },
}

// === impl Problem ===

impl Problem {
    pub(crate) fn workload(condition: &'static str, reason: &'static str, message: impl Display) -> Self {
        Self { phase: Phase::Workload, condition, reason, message: message.to_string() }
    }

    pub(crate) fn router(condition: &'static str, reason: &'static str, message: impl Display) -> Self {
        Self { phase: Phase::Router, condition, reason, message: message.to_string() }
    }

    /// A problem of what pods need before they start.
    pub fn certificates(message: impl Display) -> Self {
        Self::workload(types::MAIN_WORKLOAD_READY, RECONCILE_CERTS_ERROR, message)
    }

    pub(crate) fn single_node(message: impl Display) -> Self {
        Self::workload(types::MAIN_WORKLOAD_READY, RECONCILE_SINGLE_NODE_WORKLOAD_ERROR, message)
    }

    /// A problem of a half whose replicas are groups of pods, identified by its condition.
    pub(crate) fn multi_node(condition: &'static str, message: impl Display) -> Self {
        Self::workload(condition, RECONCILE_MULTI_NODE_WORKLOAD_ERROR, message)
    }

    /// A problem of the main half, whatever its replicas are.
    pub fn main_half(spec: &LLMInferenceServiceSpec, message: impl Display) -> Self {
        let half = Half::main(spec);
        if half.is_group() { Self::multi_node(half.condition(), message) } else { Self::single_node(message) }
    }

    pub(crate) fn scaling(message: impl Display) -> Self {
        Self::workload(types::MAIN_WORKLOAD_READY, RECONCILE_SCALING_ERROR, message)
    }

    pub(crate) fn workload_service(message: impl Display) -> Self {
        Self::workload(types::MAIN_WORKLOAD_READY, RECONCILE_WORKLOAD_SERVICE_ERROR, message)
    }

    pub(crate) fn scheduler(message: impl Display) -> Self {
        let message = format!("Failed to reconcile scheduler: {message}");
        Self::router(types::SCHEDULER_WORKLOAD_READY, SCHEDULER_RECONCILE_ERROR, message)
    }

    pub(crate) fn route(message: impl Display) -> Self {
        let message = format!("Failed to reconcile HTTPRoute: {message}");
        Self::router(types::HTTP_ROUTES_READY, HTTP_ROUTE_RECONCILE_ERROR, message)
    }

    /// A problem of the route that only a change of the service or of the platform ends.
    pub(crate) fn routing_precondition(message: impl Display) -> Self {
        let message = format!("Failed to reconcile HTTPRoute: precondition not met: {message}");
        Self::router(types::HTTP_ROUTES_READY, ROUTING_PRECONDITION_NOT_MET, message)
    }

    /// Returns the problem for a child that could not be written or deleted. `component` is the child's
    /// `app.kubernetes.io/component` label.
    pub fn of_child(child: &ObjectRef, component: Option<&str>, message: impl Display) -> Self {
        match (component, child.kind) {
            (Some(component::SCHEDULER), _) => Self::scheduler(message),
            (Some(component::ROUTER), _) | (_, ChildKind::HTTPRoute) => Self::route(message),
            (_, ChildKind::Secret | ChildKind::ConfigMap) => Self::certificates(message),
            (Some(component::WORKLOAD_WORKER_PREFILL), ChildKind::LeaderWorkerSet) => {
                Self::multi_node(types::PREFILL_WORKER_WORKLOAD_READY, message)
            }
            (_, ChildKind::LeaderWorkerSet) => Self::multi_node(types::WORKER_WORKLOAD_READY, message),
            (_, ChildKind::HorizontalPodAutoscaler | ChildKind::ScaledObject) => Self::scaling(message),
            (_, ChildKind::Service) => Self::workload_service(message),
            (
                _,
                ChildKind::Deployment
                | ChildKind::ServiceAccount
                | ChildKind::Role
                | ChildKind::RoleBinding
                | ChildKind::ClusterRoleBinding
                | ChildKind::ResourceClaimTemplate
                | ChildKind::PodDisruptionBudget
                | ChildKind::NetworkPolicy
                | ChildKind::InferencePool
                | ChildKind::InferencePoolX,
            ) => Self::single_node(message),
        }
    }
}
