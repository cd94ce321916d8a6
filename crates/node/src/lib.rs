//! The node: runs pods as processes on loopback addresses, and runs the workload controllers that a cluster would have.
//!
//! The node talks to the API server only through a [`kube::Client`]. It does the work of a kubelet, a scheduler, the
//! workload controllers, the EndpointSlice controller and a service proxy. One machine without containers has these limits:
//!
//! * **Addresses.** Each pod has its own loopback address (127.x.y.z), so that ports never collide. A process must bind that
//!   address: Longboat's own roles read it from `LONGBOAT_POD_IP`, an external engine gets it as `--host`. A pod with
//!   `hostNetwork` has 127.0.0.1.
//! * **Images.** Nothing is pulled. An image or an entry point that has a role in the `longboat` executable runs that role
//!   ([`container::roles`]); any other command must exist on this machine. Otherwise the container waits with the reason
//!   `NoLocalRole`, whose message lists the known images.
//! * **Files.** Volumes are folders under the pod's directory. Where the kernel allows it, a container sees them at the paths
//!   of the manifest, in a mount namespace ([`mounts`]). The rest of the file system is this machine's. Elsewhere, and for
//!   paths that would hide what containers need (`/tmp`, `/dev/shm`, the user's home), mount paths are rewritten where the
//!   manifest names them: command, args, env values, working directory, hooks and exec probes ([`container::paths`] has the
//!   rule). `readOnly` is not enforced.
//! * **Names.** There is no cluster DNS. A pod reaches a Service by its cluster IP, which a proxy of the node serves. The
//!   pod finds that address by name in `/etc/hosts`, if it has a mount namespace ([`hosts`]), in the
//!   `{SERVICE}_SERVICE_HOST` variables or in the API.
//! * **Placement.** Cordoning and taints decide whether a pod runs; resource requests do not. The node stands in for the nodes
//!   that pods select, unless a person gave it a label of another value, or scheduling is strict.
//! * **Isolation.** Users, capabilities and limits are not applied: a pod is processes of the user who started Longboat. The
//!   pod has the token of its own service account, and other users of this machine cannot read its folders.
//!
//! Every process that the node has started ends with the node, even if the node is killed: see [`reaper`].

mod address;
mod bin_dir;
mod cache;
pub mod container;
mod controllers;
mod error;
mod events;
mod hosts;
pub mod mounts;
mod node;
mod options;
mod pod;
mod pod_access;
mod private;
mod probe;
pub mod reaper;
mod registration;
mod usage;
mod volume;

pub use controllers::{QueueMetrics, Sample};
pub use error::NodeError;
pub use node::{Node, NodeHandle};
pub use options::{ApiAccess, ENGINE_ANNOTATION, Engine, Options, Timing};
