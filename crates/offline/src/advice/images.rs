//! Images that no kubelet can pull, because their references have no valid form. API servers accept any text.

use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_download::image;

use crate::{finding::Advice, pods::containers};

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    for (path, container) in containers(spec) {
        let reference = container.image.as_deref().unwrap_or_default();
        // Without an image, or with spaces around it, an API server refuses the pod.
        if reference.is_empty() || reference.trim() != reference {
            continue;
        }
        let Some(problem) = image::problem(reference) else { continue };
        let message =
            format!("is {reference:?}, which is no reference to an image, so no kubelet pulls it: {problem}");
        let hint = match reference.split_once("://") {
            Some((_, rest)) if image::problem(rest).is_none() => format!("write `{rest}`"),
            _ => "write it as REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST".to_owned(),
        };
        all.push(Advice::error(format!("{path}.image"), "InvalidImageName", message, hint));
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn an_image_that_no_kubelet_pulls_is_an_error() {
        let with = |image: &str| {
            finding_lines(&service(
                "a",
                &format!(
                    "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      image: '{image}'\n"
                ),
            ))
        };
        let start = "9:7 error spec.template.containers[0].image: is";
        let why = "which is no reference to an image, so no kubelet pulls it:";
        assert_eq!(
            with("https://ghcr.io/vllm/vllm:v1"),
            [format!(
                "{start} \"https://ghcr.io/vllm/vllm:v1\", {why} a reference has no scheme (write `ghcr.io/vllm/vllm:v1`)"
            )]
        );
        assert_eq!(
            with("vllm/VLLM:v1"),
            [format!(
                "{start} \"vllm/VLLM:v1\", {why} a repository has lower case letters and digits, with `.`, `_` or `-` between them (write \
                 it as REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST)"
            )]
        );
        assert_eq!(with("vllm/vllm-openai-cpu:v1"), [""; 0]);
    }
}
