//! The labels and annotations of the pods of groups.

/// The name of the pod's set.
pub(super) const NAME: &str = "leaderworkerset.sigs.k8s.io/name";
/// The index of the pod's group.
pub(super) const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
/// The index of a pod within its group; the leader has 0.
pub(super) const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// A key that is unique to each group.
pub(super) const GROUP_KEY: &str = "leaderworkerset.sigs.k8s.io/group-key";
/// The hash of the templates from which a pod was created.
pub(super) const REVISION: &str = "leaderworkerset.sigs.k8s.io/template-revision-hash";
/// The number of pods in a group.
pub(super) const SIZE: &str = "leaderworkerset.sigs.k8s.io/size";
/// The name of a worker's leader.
pub(super) const LEADER_NAME: &str = "leaderworkerset.sigs.k8s.io/leader-name";
