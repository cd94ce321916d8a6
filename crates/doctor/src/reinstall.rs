//! The command that repairs an installation.

use crate::facts::Facts;

/// Returns the command that writes the objects of the installation again, with further values. Values that
/// the command does not repeat return to their defaults, so the sentence mentions them.
pub(crate) fn command(facts: &Facts, values: &str) -> String {
    let namespace = &facts.snapshot.system_namespace;
    let image = facts.snapshot.platform.controller_image.as_deref().unwrap_or("REGISTRY/longboat:TAG");
    let space = if values.is_empty() { "" } else { " " };
    format!(
        "run `longboat install --namespace {namespace} --set image={image}{space}{values}`, with the other values of the installation"
    )
}
