//! Plans, from a composed spec and a snapshot, the children that must exist, the children to delete, and the status to
//! report.
//!
//! Everything here is a pure function over plain data: no clock, no network, no randomness. The steps are [`children()`] →
//! (the controller issues certificates, writes the children that [differ](Compare::differs), deletes those that are no longer
//! planned) → [`status()`], which takes only [`Children<Applied>`], so that conditions come from what the server returned.
//!
//! There is one module per child kind and per condition, named for what it decides: `workload/` for the model server,
//! `scheduler/` for the endpoint picker, `router/` for the route and what Gateways report, `status/` for the conditions,
//! `compare/` for when to write, `pods` for why pods are not ready.

mod accelerator;
mod certificate_request;
mod child;
mod children;
mod compare;
mod context;
mod counted;
mod draft;
mod env;
mod flags;
mod hash;
mod key;
mod kinds;
pub mod kv_connector;
mod labels;
pub mod names;
mod observed;
mod owner;
pub mod paths;
mod peer;
mod plan;
pub mod pods;
mod problem;
pub mod proof;
mod prune;
mod refusal;
mod router;
mod scheduler;
mod selector;
mod snapshot;
mod status;
pub mod trace;
mod tracing;
mod wave;
mod workload;
pub mod yaml;

pub use accelerator::{accelerator_type, is_gpu};
pub use certificate_request::CertificateRequest;
pub use child::Child;
pub use children::{Applied, ChildKind, Children, ObjectRef, Planned};
pub use compare::{Compare, same_value};
pub use counted::counted;
pub use key::{Kind, ObjectKey};
pub use kinds::types;
pub use longboat_store::Objects;
pub use observed::ObservedObjects;
pub use peer::{Peer, Peers, UsedConfigs, add_peers, group_of, models_of_spec};
pub use plan::{Finalization, Plan, children, finalization, pruned_route};
pub use problem::{Phase, PlanError, Problem};
pub use refusal::{Refusal, refusals};
pub use router::collision::{ModelCollision, RoutedService, model_collisions};
pub use scheduler::{
    ConfigOrigin, PickerConfig, PickerRefusal, PickerWarnings, RefusedBy, TransformError, VersionError,
    refusal_of_spec, refusal_of_text,
};
pub use snapshot::{Capabilities, Snapshot, Unlisted};
pub use status::{Download, PodAdapters, Progress, deletion_status, status};
pub use wave::Wave;
pub use workload::{StorageError, has_credentials, missing_prometheus, model_volume, secret_command};

#[cfg(test)]
mod tests;
