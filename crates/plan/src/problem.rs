//! What keeps a service from being planned or applied whole, and the condition that says so.

use longboat_api::labels::component;
use thiserror::Error;

use crate::{
    children::{ChildKind, ObjectRef},
    key::ObjectKey,
};

/// The part of a service that a problem belongs to. What comes after it is left as it is, neither written nor removed.
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
    /// Where it happened.
    pub phase: Phase,
    /// The condition that turns False.
    pub condition: &'static str,
    /// Its reason.
    pub reason: &'static str,
    /// Its message.
    pub message: String,
}

/// A service that cannot be planned at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Children are named after it and owned by it.
    #[error("the service has no {0}: only stored services can be planned")]
    NotStored(&'static str),
    /// Something is there and cannot be read, so what is absent is not known.
    #[error("{object} cannot be read, so nothing is changed: {reason}")]
    Unreadable {
        /// Which object.
        object: ObjectKey,
        /// Why, and where in its text.
        reason: String,
    },
}

// === impl Problem ===

impl Problem {
    pub(crate) fn workload(
        condition: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { phase: Phase::Workload, condition, reason, message: message.into() }
    }

    pub(crate) fn router(condition: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { phase: Phase::Router, condition, reason, message: message.into() }
    }

    pub(crate) fn certificates(message: impl Into<String>) -> Self {
        Self::workload("MainWorkloadReady", "ReconcileCertsError", message)
    }

    pub(crate) fn single_node(message: impl Into<String>) -> Self {
        Self::workload("MainWorkloadReady", "ReconcileSingleNodeWorkloadError", message)
    }

    /// Of a half whose replicas are groups of pods, by its condition.
    pub(crate) fn multi_node(condition: &'static str, message: impl Into<String>) -> Self {
        Self::workload(condition, "ReconcileMultiNodeWorkloadError", message)
    }

    pub(crate) fn scaling(message: impl Into<String>) -> Self {
        Self::workload("MainWorkloadReady", "ReconcileScalingError", message)
    }

    pub(crate) fn workload_service(message: impl Into<String>) -> Self {
        Self::workload("MainWorkloadReady", "ReconcileWorkloadServiceError", message)
    }

    pub(crate) fn scheduler(message: impl std::fmt::Display) -> Self {
        let message = format!("Failed to reconcile scheduler: {message}");
        Self::router("SchedulerWorkloadReady", "SchedulerReconcileError", message)
    }

    pub(crate) fn route(message: impl std::fmt::Display) -> Self {
        let message = format!("Failed to reconcile HTTPRoute: {message}");
        Self::router("HTTPRoutesReady", "HTTPRouteReconcileError", message)
    }

    /// What a failed write or removal of a child means. `component` is the child's `app.kubernetes.io/component` label.
    pub fn of_child(child: &ObjectRef, component: Option<&str>, message: impl std::fmt::Display) -> Self {
        match (component, child.kind) {
            (Some("llminferenceservice-router-scheduler"), _) => Self::scheduler(message),
            (Some("llminferenceservice-router"), _) | (_, ChildKind::HTTPRoute) => Self::route(message),
            (_, ChildKind::Secret | ChildKind::ConfigMap) => Self::certificates(message.to_string()),
            (Some(component::WORKLOAD_WORKER_PREFILL), ChildKind::LeaderWorkerSet) => {
                Self::multi_node("PrefillWorkerWorkloadReady", message.to_string())
            }
            (_, ChildKind::LeaderWorkerSet) => Self::multi_node("WorkerWorkloadReady", message.to_string()),
            (_, ChildKind::HorizontalPodAutoscaler | ChildKind::ScaledObject) => {
                Self::scaling(message.to_string())
            }
            (_, ChildKind::Service) => Self::workload_service(message.to_string()),
            _ => Self::single_node(message.to_string()),
        }
    }
}
