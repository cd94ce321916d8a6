//! The gateway: serves HTTPRoutes and InferencePools, and calls endpoint pickers as Envoy does.
//!
//! This is a Gateway API implementation. Every process of it watches the objects, and computes with pure functions of
//! [`RoutingInputs`] what it needs: routing tables, statuses, or the children of Gateways. Back ends are Services and
//! InferencePools. Each request to a pool goes through the picker's ext_proc stream, so the picker behaves as behind Envoy; a
//! picker in this process ([`Picking::Gateway`]) sees the same events in the same order.
//!
//! * On one machine, [`start`] does everything in one process. Requests to the first socket that no route matches are answered
//!   from a directory of the models of all services.
//! * On a cluster, [`manage`] runs in the controller. It writes statuses and a Deployment for each Gateway, whose pods [`serve`]
//!   the Gateway.

mod attach;
mod certificates;
mod client_certificates;
mod features;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gateways;
mod grants;
mod keys;
mod listeners;
mod local_gateway;
mod manage;
mod metrics;
mod model_directory;
mod monitoring;
mod names;
mod namespaces;
mod observed;
mod picking;
mod pod;
mod ports;
mod problem;
mod proxy;
mod references;
mod report;
mod resolved;
mod route;
mod scalable;
mod secret_namespaces;
mod series;
mod server;
mod socket_tls;
mod sockets;
mod source;
mod status;
mod tables;
mod tls_policies;
mod watch;

#[cfg(test)]
mod tests;

pub use attach::{attachment_problem, certificate_problems, listener_problems, route_problems};
pub use keys::{KeyLimits, KeyReport, KeyUsage, LABEL as API_KEY_LABEL, api_key_problems};
pub use local_gateway::{Gateway, Keys, Queue, start};
pub use longboat_accept::Guard;
pub use manage::{PodTemplate, manage, parameters_problem};
pub use observed::RoutingInputs;
pub use picking::Picking;
pub use pod::{Args, ServeError, serve};
pub use problem::Problem;
pub use route::Entrance;
pub use scalable::{QUEUE_SERIES, ScaleTarget, is_own_class, never_wakes};
pub use series::QueueSample;
pub use tables::Routes;

/// `spec.controllerName` of the GatewayClasses that this gateway serves.
pub const CONTROLLER_NAME: &str = "longboat.dev/gateway";

/// The GatewayClass that an installation makes for this gateway.
pub const CLASS_NAME: &str = "longboat";

/// The ClusterRole of the pods of Gateways, which an installation has.
pub const POD_ROLE: &str = "longboat-gateway";

/// The ClusterRole of those pods that pick endpoints themselves, beside [`POD_ROLE`].
pub const PICKING_ROLE: &str = "longboat-gateway-picking";

/// The port on which the pods of Gateways serve probes and metrics. No listener can have it.
pub const MONITORING_PORT: u16 = 15_020;

// The fuzz targets name this crate, and its tests share them.
#[cfg(test)]
extern crate self as longboat_gateway;
