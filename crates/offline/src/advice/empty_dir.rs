//! Volumes on media that no kubelet knows. API servers accept any text.

use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use crate::finding::Advice;

const MEMORY: &str = "Memory";

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    for (path, pod) in spec.server_pods() {
        for volume in pod.volumes.iter().flatten() {
            let Some(medium) = volume.empty_dir.as_ref().and_then(|volume| volume.medium.as_deref()) else {
                continue;
            };
            if matches!(medium, "" | MEMORY | "HugePages") || medium.starts_with("HugePages-") {
                continue;
            }
            let hint = if medium.eq_ignore_ascii_case(MEMORY) {
                format!("did you mean `{MEMORY}`?")
            } else {
                format!(
                    "write {MEMORY}, HugePages or HugePages-SIZE, or remove the field for the disk of the node"
                )
            };
            all.push(Advice::error(
                format!("{path}.volumes[name={}].emptyDir.medium", volume.name),
                "UnknownMedium",
                format!("is {medium:?}, which is no medium of a volume, so no kubelet starts the pod"),
                hint,
            ));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn a_medium_that_no_kubelet_knows_is_an_error() {
        let with = |medium: &str| {
            finding_lines(&service(
                "a",
                &format!(
                    "  model: {{uri: 'hf://a/b'}}\n  template:\n    volumes: [{{name: v, emptyDir: {{medium: {medium}}}}}]\n"
                ),
            ))
        };
        let start = "7:36 error spec.template.volumes[0].emptyDir.medium: is";
        let why = "which is no medium of a volume, so no kubelet starts the pod";
        assert_eq!(with("memory"), [format!("{start} \"memory\", {why} (did you mean `Memory`?)")]);
        assert_eq!(
            with("Disk"),
            [format!(
                "{start} \"Disk\", {why} (write Memory, HugePages or HugePages-SIZE, or remove the field for the disk of the node)"
            )]
        );
        for known in ["''", "Memory", "HugePages", "HugePages-2Mi"] {
            assert_eq!(with(known), [""; 0]);
        }
    }
}
