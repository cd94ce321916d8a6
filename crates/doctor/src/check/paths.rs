//! Checks whether engines of the user see volumes at the paths of their manifests, in local mode.

use crate::{
    facts::Facts,
    finding::{Cause, Finding},
};

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.services.is_empty() {
        return;
    }
    findings.extend(facts.other_paths.iter().map(|(node, why)| {
        let cause = format!(
            "each pod has other paths for its volumes, because pods have no mount namespaces ({why}): vLLM refuses KV \
             caches of an engine whose model has another path, and a mount path in an engine's own files leads nowhere"
        );
        let fix = "allow user namespaces (`sysctl user.max_user_namespaces`, and on Ubuntu \
                   `kernel.apparmor_restrict_unprivileged_userns=0`), and start `longboat up` without `--rewrite-paths`";
        Cause::new("PathsRewritten", cause, fix).warning_about(format!("Node {node}"))
    }));
}
