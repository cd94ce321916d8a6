//! Groups of the APIs of other projects.

use k8s_openapi::Resource;

use crate::foreign::{leaderworkerset::LeaderWorkerSet, scaledobject::ScaledObject};

/// The Gateway API.
pub const GATEWAY: &str = "gateway.networking.k8s.io";
/// InferencePools.
pub const POOL: &str = "inference.networking.k8s.io";
/// InferencePools of older releases, and the objects that configure a picker.
pub const OLD_POOL: &str = "inference.networking.x-k8s.io";
/// The groups of the objects that configure a picker, such as InferenceObjectives: the older one first.
pub const PICKER: [&str; 2] = [OLD_POOL, "llm-d.ai"];
/// The kinds that the controller writes if a cluster serves them: LeaderWorkerSet and ScaledObject.
pub const OPTIONAL: [&str; 2] = [LeaderWorkerSet::GROUP, ScaledObject::GROUP];
