//! Names of an installation's objects. Those that the reference has too are the same, since scripts and charts depend on
//! them.

/// Deployment of the controller; its pods have it as the label `control-plane`.
pub const CONTROLLER: &str = "llmisvc-controller-manager";
/// Container of the controller.
pub const CONTAINER: &str = "manager";
/// Command of the controller: a name under which the binary runs that role.
pub const COMMAND: &str = "/manager";
/// Service in front of the controller's metrics.
pub const METRICS_SERVICE: &str = "llmisvc-controller-manager-service";
/// Secret with the certificate of the webhooks, where cert-manager issues it.
pub const CERTIFICATE_SECRET: &str = "llmisvc-webhook-server-cert";
/// Certificate of cert-manager for the webhooks.
pub const CERTIFICATE: &str = "llmisvc-serving-cert";
/// Issuer of that certificate.
pub const ISSUER: &str = "selfsigned-issuer";
/// Where the certificate is mounted.
pub const CERTIFICATE_FOLDER: &str = "/tmp/k8s-webhook-server/serving-certs";
/// Annotation that has cert-manager write the CA of a certificate.
pub const INJECT_CA: &str = "cert-manager.io/inject-ca-from";
/// Label of every object of an installation: by it they are found again.
pub const LABEL: &str = "longboat.dev/installation";
/// Value of that label.
pub const LABEL_VALUE: &str = "longboat";
/// Port on which the controller serves webhooks.
pub const WEBHOOK_PORT: u16 = 9443;
/// Port on which the controller serves metrics.
pub const METRICS_PORT: u16 = 8443;
/// Port on which the controller answers probes.
pub const HEALTH_PORT: u16 = 8081;
/// User and group of the controller: nobody in particular, but not root.
pub const USER: u32 = 1000;
