//! Which images and entry points have a role in the `longboat` executable.
//!
//! The node's `bin` folder holds one link to the executable for each name in [`LINKS`]; the executable chooses its role
//! by the name that it was started under. Adding an image is one line in `IMAGES`, adding a name is one in [`LINKS`].

/// The names under which the executable is linked into the `bin` folder.
pub const LINKS: &[&str] =
    &["longboat", "vllm", "epp", "pd-sidecar", "storage-initializer", "llm-d-inference-sim"];

/// Entry points whose file name is not the name of a link. An entry point with the file name of a link, in whatever
/// folder, runs that link.
const ENTRY_POINTS: &[(&str, &str)] = &[
    ("/storage-initializer/scripts/initializer-entrypoint", "storage-initializer"),
    ("/app/routing-sidecar", "pd-sidecar"),
    ("/app/llm-d-routing-sidecar", "pd-sidecar"),
];

/// What an image runs when the container names no command: repository name (without registry, folders and tag), link,
/// and arguments that its entry point has before those of the container.
const IMAGES: &[(&str, &str, &[&str])] = &[
    ("storage-initializer", "storage-initializer", &[]),
    ("kserve-storage-initializer", "storage-initializer", &[]),
    ("llm-d-router-endpoint-picker", "epp", &[]),
    ("llm-d-inference-scheduler", "epp", &[]),
    ("epp", "epp", &[]),
    ("llm-d-router-disagg-sidecar", "pd-sidecar", &[]),
    ("llm-d-routing-sidecar", "pd-sidecar", &[]),
    ("llm-d-inference-sim", "llm-d-inference-sim", &[]),
    ("llm-d-cuda", "vllm", &["serve"]),
    ("llm-d-cpu", "vllm", &["serve"]),
    ("llm-d-xpu", "vllm", &["serve"]),
    ("vllm-openai", "vllm", &["serve"]),
    ("vllm-openai-cpu", "vllm", &["serve"]),
    ("longboat", "longboat", &[]),
];

/// The link that runs an entry point, or none where the entry point is no role.
pub fn for_entry_point(command: &str) -> Option<&'static str> {
    if let Some((_, link)) = ENTRY_POINTS.iter().find(|(path, _)| *path == command) {
        return Some(link);
    }
    let name = command.rsplit('/').next()?;
    LINKS.iter().find(|link| **link == name).copied()
}

/// The link and leading arguments that an image runs by itself, or none where the image is not known.
pub fn for_image(image: &str) -> Option<(&'static str, &'static [&'static str])> {
    let name = repository_name(image);
    IMAGES.iter().find(|(image, ..)| *image == name).map(|(_, link, args)| (*link, *args))
}

/// `ghcr.io/llm-d/epp:v1@sha256:…` is `epp`.
fn repository_name(image: &str) -> &str {
    let last = image.split('@').next().unwrap_or(image).rsplit('/').next().unwrap_or(image);
    last.split(':').next().unwrap_or(last)
}

/// The images that are known, for a message to the user.
pub fn known_images() -> String {
    let names: Vec<_> = IMAGES.iter().map(|(image, ..)| *image).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_points_run_the_link_of_their_name() {
        assert_eq!(for_entry_point("/app/epp"), Some("epp"));
        assert_eq!(for_entry_point("/app/pd-sidecar"), Some("pd-sidecar"));
        assert_eq!(for_entry_point("vllm"), Some("vllm"));
        assert_eq!(for_entry_point("/usr/local/bin/vllm"), Some("vllm"));
        assert_eq!(
            for_entry_point("/storage-initializer/scripts/initializer-entrypoint"),
            Some("storage-initializer")
        );
        assert_eq!(for_entry_point("/bin/bash"), None);
    }

    #[test]
    fn images_are_known_by_repository_name() {
        assert_eq!(for_image("kserve/storage-initializer:latest").unwrap().0, "storage-initializer");
        assert_eq!(for_image("localhost:5000/x/epp@sha256:00").unwrap().0, "epp");
        assert_eq!(for_image("vllm/vllm-openai:v0.10.0").unwrap(), ("vllm", &["serve"][..]));
        assert!(for_image("docker.io/library/busybox").is_none());
    }

    #[test]
    fn every_target_of_the_tables_is_a_link() {
        for link in IMAGES.iter().map(|(_, link, _)| link).chain(ENTRY_POINTS.iter().map(|(_, link)| link)) {
            assert!(LINKS.contains(link), "{link}");
        }
    }
}
