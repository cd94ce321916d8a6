//! Why there is no scene, or no plan.

use longboat_compose::{ComposeError, platform::PlatformError, presets};
use longboat_plan::PlanError;
use thiserror::Error;

/// Why no scene can be created from manifests.
#[derive(Debug, Error)]
pub enum SceneError {
    /// An object does not match its kind.
    #[error("{place}: {name}: {message}")]
    Object {
        /// File, line and column.
        place: String,
        /// Its kind and its name.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// The platform's settings cannot be used.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// A config cannot be used as a layer.
    #[error(transparent)]
    Layer(#[from] ComposeError),
    /// A preset of this build is broken.
    #[error(transparent)]
    Preset(#[from] presets::BrokenPreset),
    /// The built-in platform's settings are broken.
    #[error("cannot read the default settings of the platform: {0}")]
    Default(String),
}

/// Why a service has no children.
#[derive(Debug, Error)]
pub enum PlanningError {
    /// It cannot be composed.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// An API server would refuse the composed spec.
    #[error("{0}")]
    Rejected(String),
    /// An API server would refuse its children.
    #[error("{0}")]
    Refused(String),
    /// It cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
}
