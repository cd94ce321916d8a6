//! Images and entry points that are roles of the `longboat` executable.
//!
//! The node's `bin` folder has one link to the executable for each name in [`LINKS`]. The executable chooses its role by the
//! name under which it was started. To add an image, add one line to `IMAGES`; to add a name, add it to [`LINKS`].

use longboat_api::engine::{LLAMA_CPP, TENSORRT_LLM};

/// The names under which the executable is linked into the `bin` folder.
pub(crate) const LINKS: &[&str] = &["longboat", "vllm", PICKER, "pd-sidecar", FETCHES, "llm-d-inference-sim"];

/// The module of Python that is SGLang's server.
pub(crate) const SGLANG_MODULE: &str = "sglang.launch_server";

/// The arguments of `longboat` with which it is SGLang's server, which is always simulated.
pub(crate) const SGLANG: &[&str] = &["sim", "--simulated-engine=sglang"];

/// A program that is the server of an engine other than vLLM.
pub(crate) struct Server {
    pub(crate) program: &'static str,
    /// The label of the engine in the table of engines.
    pub(crate) label: &'static str,
    /// The arguments of `longboat` with which it is that server.
    pub(crate) simulator: &'static [&'static str],
}

/// The servers of other engines.
pub(crate) static SERVERS: [Server; 2] = [
    Server {
        program: "trtllm-serve",
        label: TENSORRT_LLM.label,
        simulator: &["sim", "--simulated-engine=trtllm-serve"],
    },
    Server {
        program: "llama-server",
        label: LLAMA_CPP.label,
        simulator: &["sim", "--simulated-engine=llamacpp"],
    },
];

/// The link that is the endpoint picker.
pub(crate) const PICKER: &str = "epp";

/// Has the addresses and folders of a download, one a line, in place of its arguments.
pub const DOWNLOADS_VARIABLE: &str = "LONGBOAT_FETCH_DOWNLOADS";

/// The link that downloads models.
pub(crate) const FETCHES: &str = "storage-initializer";

/// Entry points whose file name differs from the name of their link. An entry point in any folder whose file name is the
/// name of a link runs that link.
const ENTRY_POINTS: &[(&str, &str)] = &[
    ("/storage-initializer/scripts/initializer-entrypoint", FETCHES),
    ("/app/routing-sidecar", "pd-sidecar"),
    ("/app/llm-d-routing-sidecar", "pd-sidecar"),
];

/// The entry points of images, for containers without a command: the repository name (without registry, folders and tag), the
/// link,
/// and the arguments that its entry point puts before those of the container.
const IMAGES: &[(&str, &str, &[&str])] = &[
    ("storage-initializer", FETCHES, &[]),
    ("kserve-storage-initializer", FETCHES, &[]),
    ("llm-d-router-endpoint-picker", PICKER, &[]),
    ("llm-d-inference-scheduler", PICKER, &[]),
    ("epp", PICKER, &[]),
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

/// Returns the link that runs an entry point, or `None` if the entry point is not a role.
pub(crate) fn for_entry_point(command: &str) -> Option<&'static str> {
    if let Some((_, link)) = ENTRY_POINTS.iter().find(|(path, _)| *path == command) {
        return Some(link);
    }
    let name = command.rsplit('/').next()?;
    LINKS.iter().find(|link| **link == name).copied()
}

/// Returns the link and the leading arguments of an image, or `None` if the image is unknown.
pub(crate) fn for_image(image: &str) -> Option<(&'static str, &'static [&'static str])> {
    let name = repository_name(image);
    IMAGES.iter().find(|(image, ..)| *image == name).map(|(_, link, args)| (*link, *args))
}

/// Returns the last part of an image's name: `ghcr.io/llm-d/epp:v1@sha256:…` becomes `epp`.
pub fn repository_name(image: &str) -> &str {
    let last = image.split('@').next().unwrap_or(image).rsplit('/').next().unwrap_or(image);
    last.split(':').next().unwrap_or(last)
}

/// Lists the known images for a message to the user.
pub(crate) fn known_images() -> String {
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
