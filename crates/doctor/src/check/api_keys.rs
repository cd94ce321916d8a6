//! Checks the Secrets with API keys.

use crate::{
    facts::Facts,
    finding::{Cause, Finding},
};

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    for (secret, problem) in &facts.refused_keys {
        let text = format!("no gateway accepts the keys of this Secret: {problem}");
        let fix = format!("kubectl edit secret -n {} {}", secret.namespace, secret.name);
        findings.push(Cause::new("ApiKeyRefused", text, fix).broken(format!("Secret {secret}")));
    }
}
