//! Names of the objects that are made for a Gateway on a cluster. Pure functions.

use longboat_api::foreign::gateway::Gateway;
use longboat_key::{Key, Name, Namespace};

/// The longest name of a Service, and the longest value of a label.
pub(crate) const MAX_NAME: usize = 63;

/// Returns the name of a Gateway's Deployment, Service and account: that of the Gateway and its class, as the Gateway API
/// recommends, if a Service can have it.
pub(crate) fn deployment(gateway: &Gateway) -> Key {
    let own = Name::of(&gateway.metadata);
    let name = format!("{own}-{}", gateway.spec.gateway_class_name);
    // The name of a Service is a label of DNS (RFC 1035): no dots, and a letter at the start.
    let fits =
        name.len() <= MAX_NAME && !name.contains('.') && name.starts_with(|c: char| c.is_ascii_alphabetic());
    let uid = gateway.metadata.uid.as_deref().unwrap_or_default();
    let name = if fits { name } else { format!("gateway-{uid}") };
    Key::new(Namespace::of(&gateway.metadata), Name(&name))
}

/// Returns the name of the Secret with the API keys that a Gateway's pods check.
pub(crate) fn api_keys(gateway: &Gateway) -> Key {
    let Key { namespace, name } = deployment(gateway);
    Key::new(namespace.as_deref(), Name(&format!("{name}-api-keys")))
}
