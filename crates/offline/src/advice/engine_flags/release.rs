//! The release of vLLM in an image. Flags are judged by the newest one that is known here, and others took other values.

use k8s_openapi::api::core::v1::Container;
use longboat_api::vllm_flags;

use super::super::Advice;

/// Makes an error a warning if the image has an older vLLM than the one that refuses the value.
pub(super) fn for_image(main: &Container, advice: Advice) -> Advice {
    let Some(release) = older(main) else { return advice };
    let hint = advice.hint.unwrap_or_default();
    let hint = format!("the image has vLLM {release}, which may take it. For newer ones, {hint}");
    Advice { fatal: false, hint: Some(hint), ..advice }
}

/// Whether the tag of the image names an older vLLM than the one whose flags and variables are known.
pub(in super::super) fn is_older(main: &Container) -> bool {
    older(main).is_some()
}

fn older(main: &Container) -> Option<&str> {
    before(main, numbers(vllm_flags::version())?)
}

/// Returns the release of vLLM that the tag of the image names, if it is older than this one.
pub(super) fn before(main: &Container, newer: (u32, u32)) -> Option<&str> {
    let image = main.image.as_deref()?.split('@').next()?;
    // Vendors number their images in other ways.
    let (repository, tag) = image.rsplit_once(':')?;
    repository.rsplit('/').next()?.starts_with("vllm-openai").then_some(())?;
    let release = tag.strip_prefix('v')?.split('-').next()?;
    (numbers(release)? < newer).then_some(release)
}

/// Returns the major and the minor number of a release.
fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}
