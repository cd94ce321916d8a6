//! Containers that have to run as root and may not.

use std::collections::BTreeMap;

use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use crate::{finding::Advice, pods::containers_of};

/// Finds containers that no kubelet starts: their user is root, and `runAsNonRoot` forbids it. Presets set it.
pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    // A user of the pod is that of several containers.
    let mut by_path = BTreeMap::new();
    for (path, pod) in spec.server_pods() {
        let of_pod = pod.security_context.as_ref();
        for (at, container) in containers_of(path, pod) {
            let own = container.security_context.as_ref();
            // The fields of a container win over those of its pod, each by itself.
            let (user, place) = match own.and_then(|own| own.run_as_user) {
                Some(user) => (Some(user), at),
                None => (of_pod.and_then(|pod| pod.run_as_user), path.to_owned()),
            };
            let non_root =
                own.and_then(|own| own.run_as_non_root).or(of_pod.and_then(|pod| pod.run_as_non_root));
            if user == Some(0) && non_root == Some(true) {
                by_path.entry(format!("{place}.securityContext.runAsUser")).or_insert(&container.name);
            }
        }
    }
    let advice = |(path, container): (String, &String)| {
        let message =
            format!("is 0 (root), and container {container} has runAsNonRoot: true, so no kubelet starts it");
        let hint = format!("set another user, or runAsNonRoot: false in the securityContext of {container}");
        Advice::error(path, "RootForbidden", message, hint)
    };
    by_path.into_iter().map(advice).collect()
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn root_is_refused_where_the_preset_forbids_it() {
        let with = |user: &str, more: &str| {
            let pod = format!(
                "  model: {{uri: 'hf://a/b'}}\n  template:\n    securityContext: {{runAsUser: {user}}}\n    containers:\n    - name: main\n{more}"
            );
            finding_lines(&service("a", &pod))
        };
        let expected = "7:23 error spec.template.securityContext.runAsUser: is 0 (root), and container main has runAsNonRoot: true, so \
                        no kubelet starts it (set another user, or runAsNonRoot: false in the securityContext of main)";
        assert_eq!(with("0", ""), [expected]);
        assert_eq!(with("1000", ""), [""; 0]);
        assert_eq!(with("0", "      securityContext: {runAsNonRoot: false}\n"), [""; 0]);
        assert_eq!(with("0", "      securityContext: {runAsUser: 1}\n"), [""; 0]);
    }
}
