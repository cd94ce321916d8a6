//! Why manifests cannot be worked with.

use longboat_compose::{ComposeError, platform::PlatformError, presets::BrokenPreset};
use longboat_manifest::ManifestError;

/// Why manifests cannot be worked with.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// A file cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// An object is not what its kind says.
    #[error("{place}: {object}: {message}")]
    Unreadable {
        /// `file:line:column`.
        place: String,
        /// Kind, namespace and name.
        object: String,
        /// What does not fit.
        message: String,
    },
    /// A config cannot become a layer.
    #[error("{place}: {source}")]
    Layer {
        /// `file:line:column`, or which preset.
        place: String,
        /// Why not.
        #[source]
        source: ComposeError,
    },
    /// A preset of this build is broken.
    #[error(transparent)]
    Preset(#[from] BrokenPreset),
    /// The platform's settings are no settings.
    #[error("{place}: {source}")]
    Platform {
        /// `file:line:column`, or that they are built in.
        place: String,
        /// What is wrong with them.
        #[source]
        source: PlatformError,
    },
    /// The built-in platform has no settings.
    #[error("the built-in platform has no ConfigMap `{name}`")]
    NoPlatform {
        /// The ConfigMap that was looked for.
        name: &'static str,
    },
}
