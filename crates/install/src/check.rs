//! Checks values.

use longboat_key::{
    Namespace,
    names::{is_label, is_subdomain},
};
use serde_json::Value;

use crate::{Values, ValuesError, platform};

/// Describes valid names of namespaces, for errors.
pub(crate) const NAMESPACE: &str = "the name of a namespace: at most 63 lower-case letters, digits and `-`";

/// Refuses values that contradict each other, or that a cluster would refuse.
pub(crate) fn check(values: &Values) -> Result<(), ValuesError> {
    let wrong = |path: &str, value: &str, expected| {
        Err(ValuesError::Value { path: path.to_owned(), value: value.to_owned(), expected })
    };
    if values.image.contains(char::is_whitespace)
        || longboat_download::image::problem(&values.image).is_some()
    {
        return wrong("image", &values.image, "an image, such as registry.example/longboat:v1");
    }
    let lists =
        [("watchNamespaces", &values.watch_namespaces), ("secretNamespaces", &values.secret_namespaces)];
    for (list, namespaces) in lists {
        for (index, namespace) in namespaces.iter().enumerate() {
            if !is_label(namespace) {
                return wrong(&format!("{list}[{index}]"), namespace, NAMESPACE);
            }
        }
    }
    if let (Some(namespace), false) = (values.secret_namespaces.first(), values.watch_namespaces.is_empty()) {
        return wrong(
            "secretNamespaces[0]",
            namespace,
            "an empty list if watchNamespaces is set, because watchNamespaces already limits the right \
             to read Secrets",
        );
    }
    for (index, name) in values.image_pull_secrets.iter().enumerate() {
        if name.is_empty() {
            return wrong(&format!("imagePullSecrets[{index}]"), name, "the name of a Secret");
        }
    }
    // A name may not end with a dash or a dot, but what comes before the rest of the name may.
    let prefix = values.preset_prefix.trim_end_matches(['-', '.']);
    if !values.preset_prefix.is_empty() && !is_subdomain(prefix) {
        return wrong(
            "presetPrefix",
            &values.preset_prefix,
            "lower-case letters, digits, `-` and `.`, as in `kserve-`",
        );
    }
    let is_level = ["off", "error", "warn", "info", "debug", "trace"].contains(&values.log_level.as_str());
    // Levels by module: `info,longboat_epp=debug`.
    if !is_level && !values.log_level.contains('=') {
        return wrong("logLevel", &values.log_level, "error, warn, info or debug");
    }
    let host = values.webhook_url.strip_prefix("https://");
    if !values.webhook_url.is_empty() && host.is_none_or(|host| host.is_empty() || host.contains('/')) {
        return wrong(
            "webhookUrl",
            &values.webhook_url,
            "https://HOST:PORT without a path, or an empty string",
        );
    }
    let of_cluster = [
        (
            "metrics.secure",
            values.metrics.enabled && values.metrics.secure,
            "false if watchNamespaces is set, because the check of tokens needs rights in the whole cluster",
        ),
        (
            "gateway.enabled",
            values.gateway.enabled,
            "false if watchNamespaces is set, because a GatewayClass belongs to the whole cluster",
        ),
        (
            "sharedPicker.enabled",
            values.shared_picker.enabled,
            "false if watchNamespaces is set, because the shared picker has rights in the whole cluster",
        ),
    ];
    if !values.watch_namespaces.is_empty()
        && let Some((path, _, expected)) = of_cluster.into_iter().find(|(_, is_set, _)| *is_set)
    {
        return wrong(path, "true", expected);
    }
    let ingress = values.platform.settings.get("ingress").and_then(|all| all.get("kserveIngressGateway"));
    let gateway = ingress.and_then(Value::as_str).filter(|gateway| !gateway.is_empty());
    let is_key = |text: &str| {
        text.split_once('/').is_some_and(|(namespace, name)| is_label(namespace) && is_subdomain(name))
    };
    // The controller reads a name alone as one in its own namespace, where hardly anybody has a Gateway.
    if let Some(gateway) = gateway.filter(|gateway| !is_key(gateway)) {
        let expected = "NAMESPACE/NAME of a Gateway, such as gateways/models";
        return wrong("platform.settings.ingress.kserveIngressGateway", gateway, expected);
    }
    let data = platform::data(values);
    let platform = longboat_compose::Platform::parse(&data, Namespace("kserve"))
        .map_err(|error| ValuesError::Platform { message: error.to_string() })?;
    if platform.shared_picker && !values.shared_picker.enabled {
        return wrong(
            "sharedPicker.enabled",
            "false",
            "true, because platform.settings.longboat.picker is shared",
        );
    }
    Ok(())
}
