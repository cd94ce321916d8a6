//! Gateways of `spec.router.gateway.refs`. Composing copies them to the parents of the route.

use longboat_manifest::Document;

use crate::finding::Finding;

const REFS: &str = "spec.router.gateway.refs";
const PARENTS: &str = "spec.router.route.http.spec.parentRefs";

/// Moves a finding about a parent of the composed route to the Gateway that the first of `layers` with Gateways names. Returns whether
/// there is one.
pub(super) fn blame<'a>(finding: &mut Finding, mut layers: impl Iterator<Item = &'a Document>) -> bool {
    let Some(below) = finding.path.strip_prefix(PARENTS) else { return false };
    let path = format!("{REFS}{below}");
    let Some(layer) = layers.find(|layer| layer.value(REFS).is_some()) else { return false };
    finding.move_to(layer, &path);
    finding.message = if path.ends_with("].name") {
        "Required value: the name of a Gateway".to_owned()
    } else {
        finding.message.replace(PARENTS, REFS)
    };
    true
}
