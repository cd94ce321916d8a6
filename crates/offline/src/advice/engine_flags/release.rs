//! The release of vLLM in an image. Flags are judged by one version, and others take other values.

use k8s_openapi::api::core::v1::Container;
use longboat_api::vllm;

use crate::finding::{Advice, Severity};

/// Makes an error a warning if the image has another vLLM than those that refuse the value: the recorded and the newest one.
pub(in super::super) fn for_image(main: &Container, advice: Advice) -> Advice {
    let Some((release, numbers)) = named(main) else { return advice };
    let (Some(recorded), Some(newest)) = (recorded(), newest()) else { return advice };
    if (recorded..=newest).contains(&numbers) {
        return advice;
    }
    let others = if numbers < recorded { "newer" } else { "older" };
    let hint = advice.hint.unwrap_or_default();
    let hint = format!("the image has vLLM {release}, which may take it. For {others} ones, {hint}");
    Advice { severity: Severity::Warning, hint: Some(hint), ..advice }
}

/// Whether the tag of the image names an older vLLM than the one whose flags and variables are known.
pub(in super::super) fn is_older(main: &Container) -> bool {
    matches!((named(main), recorded()), (Some((_, numbers)), Some(recorded)) if numbers < recorded)
}

/// Returns the release of vLLM that the tag of the image names, if it is older than this one.
pub(super) fn before(main: &Container, newer: (u32, u32)) -> Option<&str> {
    named(main).filter(|(_, numbers)| *numbers < newer).map(|(release, _)| release)
}

/// Whether the tag of the image names the newest vLLM that is known, or one that is newer still.
pub(super) fn is_newest(main: &Container) -> bool {
    matches!((named(main), newest()), (Some((_, numbers)), Some(newest)) if numbers >= newest)
}

/// Returns the release that the tag of the image names.
fn named(main: &Container) -> Option<(&str, (u32, u32))> {
    let image = main.image.as_deref()?.split('@').next()?;
    // Vendors number their images in other ways.
    let (repository, tag) = image.rsplit_once(':')?;
    repository.rsplit('/').next()?.starts_with("vllm-openai").then_some(())?;
    let release = tag.strip_prefix('v')?.split('-').next()?;
    Some((release, numbers(release)?))
}

fn recorded() -> Option<(u32, u32)> {
    numbers(vllm::version())
}

fn newest() -> Option<(u32, u32)> {
    numbers(vllm::newest::version())
}

/// Returns the major and the minor number of a release.
fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::tests::finding_lines;

    #[test]
    fn an_older_vllm_may_take_what_the_newest_refuses() {
        let with = |image: &str| {
            finding_lines(&format!(
                "args: [--enable-chunked-prefill=False]\n      image: {image}\n      resources: {{limits: {{nvidia.com/gpu: 1}}}}"
            ))
        };
        let found = with("vllm/vllm-openai:v0.7.2");
        let start =
            "warning spec.template.containers[0].args[0]: gives --enable-chunked-prefill the value False";
        assert!(found.len() == 1 && found[0].starts_with(start), "{found:#?}");
        assert!(found[0].contains("the image has vLLM 0.7.2, which may take it"), "{found:#?}");
        for image in ["vllm/vllm-openai:latest", "vllm/vllm-openai:v0.32.1", "registry.example.com/vllm:v0.1"]
        {
            assert!(with(image)[0].starts_with("error"), "{image}");
        }
    }

    #[test]
    fn flags_of_the_newest_vllm_are_right_for_its_image_and_warned_about_for_others() {
        let with = |args: &str, image: &str| {
            finding_lines(&format!("args: {args}\n      image: vllm/vllm-openai:{image}"))
        };
        let unknown = |args: &str, image: &str| {
            let found = with(args, image);
            found.iter().filter(|found| found.contains("is no flag of")).cloned().collect::<Vec<_>>()
        };
        for args in ["[--watchdog-config, '{}']", "[--disable-prefix-caching]", "[--disable-log-requests]"] {
            for image in ["v0.33.0", "v0.33.1-cu130", "v0.40.0"] {
                assert_eq!(unknown(args, image), [""; 0], "{args} {image}");
            }
            for image in ["v0.32.1", "v0.20.0", "latest"] {
                let found = unknown(args, image);
                assert!(found.len() == 1 && found[0].starts_with("warning"), "{args} {image}: {found:#?}");
            }
        }
        let found = unknown("[--disable-prefix-caching]", "v0.32.1");
        assert!(
            found[0].ends_with("(remove it, unless the image has vLLM 0.33.0 or a newer one)"),
            "{found:#?}"
        );
        assert_eq!(unknown("[--foobar]", "v0.33.0").len(), 1);
        // Values that both versions refuse are errors for both, and not for a version that nobody knows here.
        for (image, severity) in [("v0.32.0", "error"), ("v0.33.0", "error"), ("v0.34.0", "warning")] {
            let found = with("[--gpu-memory-utilization, '90']", image);
            assert!(
                found.iter().any(|found| found.starts_with(severity) && found.contains("the value 90")),
                "{found:#?}"
            );
        }
    }
}
