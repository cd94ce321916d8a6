//! Names of an installation's objects. Objects that the reference has too have the same names, because scripts and charts
//! depend on them.

pub use longboat_api::names::{CONTROLLER, CONTROLLER_METRICS};

/// Container of the controller.
pub const CONTAINER: &str = "manager";
/// The command of the controller. Under this name, the binary runs as the controller.
pub const COMMAND: &str = "/manager";
/// The Secret with the certificate of the webhooks, if cert-manager issues it.
pub(crate) const CERTIFICATE_SECRET: &str = "llmisvc-webhook-server-cert";
/// The Certificate object of cert-manager for the webhooks.
pub const CERTIFICATE: &str = "llmisvc-serving-cert";
/// The Issuer of that certificate.
pub(crate) const ISSUER: &str = "selfsigned-issuer";
/// The folder in which the certificate is mounted.
pub(crate) const CERTIFICATE_FOLDER: &str = "/tmp/k8s-webhook-server/serving-certs";
/// The annotation that makes cert-manager write the CA of a certificate.
pub const INJECT_CA: &str = "cert-manager.io/inject-ca-from";
/// The label of every object of an installation, with which they can be listed.
pub const LABEL: &str = "longboat.dev/installation";
/// Value of that label.
pub const LABEL_VALUE: &str = "longboat";
/// Port on which the controller serves webhooks.
pub(crate) const WEBHOOK_PORT: u16 = 9443;
/// Port on which the controller serves metrics.
pub(crate) const METRICS_PORT: u16 = 8443;
/// The port on which the controller serves probes.
pub(crate) const HEALTH_PORT: u16 = 8081;
/// The user and group of the controller: an arbitrary one, but not root.
pub const USER: u32 = 1000;
