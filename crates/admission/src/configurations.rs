//! The webhook configurations, with which API servers call the webhooks.

use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
            ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        core::v1::{Service, ServicePort, ServiceSpec},
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use longboat_api::{
    crd::WebhookTarget,
    names::{CONTROLLER, WEBHOOK_SERVICE},
    v1alpha2::GROUP,
};
use longboat_key::Namespace;

use crate::{Action, Hook, Subject};

/// Label of the controller's pods.
pub const CONTROL_PLANE: (&str, &str) = ("control-plane", CONTROLLER);

/// All webhook configurations.
#[derive(Clone, Debug, PartialEq)]
pub struct Configurations {
    /// Fills in defaults of services.
    pub mutating: MutatingWebhookConfiguration,
    /// Checks services, then configs.
    pub validating: Vec<ValidatingWebhookConfiguration>,
}

/// The two kinds of webhooks differ only in their type.
macro_rules! webhook {
    ($kind:ident, $hook:expr, $target:expr) => {
        $kind {
            name: $hook.name(),
            client_config: client(&$hook.path(), $target),
            rules: Some(vec![rule($hook)]),
            failure_policy: Some("Fail".to_owned()),
            match_conditions: Some(vec![condition()]),
            // Each version has a webhook of its own. With `Equivalent`, that of the other version would get each object, too.
            match_policy: Some("Exact".to_owned()),
            side_effects: "None".to_owned(),
            admission_review_versions: vec!["v1".to_owned(), "v1beta1".to_owned()],
            ..$kind::default()
        }
    };
}

/// Returns the configurations for webhooks at `target`. They have no CA, because the controller writes its own into them.
pub fn configurations(target: &WebhookTarget) -> Configurations {
    let hooks = |action: Action, subject: Subject| -> Vec<Hook> {
        Hook::all().filter(|hook| hook.action == action && hook.subject == subject).collect()
    };
    let validating = [Subject::Service, Subject::Config].map(|subject| ValidatingWebhookConfiguration {
        metadata: named(subject),
        webhooks: Some(
            hooks(Action::Validate, subject)
                .into_iter()
                .map(|hook| webhook!(ValidatingWebhook, hook, target))
                .collect(),
        ),
    });
    Configurations {
        mutating: MutatingWebhookConfiguration {
            metadata: named(Subject::Service),
            webhooks: Some(
                hooks(Action::Mutate, Subject::Service)
                    .into_iter()
                    .map(|hook| webhook!(MutatingWebhook, hook, target))
                    .collect(),
            ),
        },
        validating: validating.into(),
    }
}

/// The Service in front of the webhooks.
pub fn service(namespace: Namespace<&str>) -> Service {
    let labels = |(key, value): (&str, &str)| [(key.to_owned(), value.to_owned())].into();
    Service {
        metadata: ObjectMeta {
            name: Some(WEBHOOK_SERVICE.to_owned()),
            namespace: Some(namespace.to_string()),
            labels: Some(labels(CONTROL_PLANE)),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            selector: Some(labels(CONTROL_PLANE)),
            ports: Some(vec![ServicePort {
                port: 443,
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::String("webhook-server".to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The name of the configurations for a kind.
pub fn name(subject: Subject) -> String {
    format!("{}.{GROUP}", subject.kind().to_lowercase())
}

fn named(subject: Subject) -> ObjectMeta {
    ObjectMeta { name: Some(name(subject)), ..ObjectMeta::default() }
}

fn client(path: &str, target: &WebhookTarget) -> WebhookClientConfig {
    match target {
        WebhookTarget::Service { namespace } => WebhookClientConfig {
            service: Some(ServiceReference {
                name: WEBHOOK_SERVICE.to_owned(),
                namespace: namespace.to_string(),
                path: Some(path.to_owned()),
                port: None,
            }),
            ..WebhookClientConfig::default()
        },
        WebhookTarget::Url { base } => {
            WebhookClientConfig { url: Some(format!("{base}{path}")), ..WebhookClientConfig::default() }
        }
    }
}

/// Limits the calls for updates to those that change a field that the webhooks read. So an update that only removes a
/// finalizer succeeds even if no webhook responds, and takes no time in the webhooks.
fn condition() -> MatchCondition {
    let differs = |field: &str| {
        let of = |object: &str| format!("(has({object}.{field}) ? {object}.{field} : {{}})");
        format!("{} != {}", of("object"), of("oldObject"))
    };
    let [spec, labels, annotations] = ["spec", "metadata.labels", "metadata.annotations"].map(differs);
    MatchCondition {
        name: "changes-what-is-checked".to_owned(),
        expression: format!(
            "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp) && ({spec} || {labels} || {annotations})"
        ),
    }
}

fn rule(hook: Hook) -> RuleWithOperations {
    let mut operations = vec!["CREATE".to_owned(), "UPDATE".to_owned()];
    if hook.subject == Subject::Config {
        operations.push("DELETE".to_owned());
    }
    RuleWithOperations {
        api_groups: Some(vec![GROUP.to_owned()]),
        api_versions: Some(vec![hook.version.name().to_owned()]),
        operations: Some(operations),
        resources: Some(vec![hook.subject.resource().to_owned()]),
        scope: None,
    }
}
